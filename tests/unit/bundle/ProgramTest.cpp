// SPDX-License-Identifier: Apache-2.0
//
// Each rule of runtime/abi/BundleFormat.h has a program that breaks it and
// nothing else. Beyond that, no sequence of bytes may do more than fail.
#include "runtime/bundle/Program.h"
#include "runtime/bundle/ProgramPrinter.h"
#include "tests/unit/bundle/TestProgram.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

namespace llmc {
namespace {

using test::kTestWeightsSize;
using test::makeTestProgram;
using test::TestProgram;

Result<std::shared_ptr<const Program>> load(std::string_view bytes,
                                            uint64_t weightsSize = kTestWeightsSize) {
  return Program::load(std::as_bytes(std::span(bytes.data(), bytes.size())), weightsSize);
}

/// Uses everything that a program offers.
std::string printAll(const Program &program) {
  return printProgram(program) + printSymbols(program) + printKernels(program);
}

TEST(Program, GivesBackWhatWasEncoded) {
  TestProgram source = makeTestProgram();
  auto program = load(source.encode());
  ASSERT_TRUE(program.isOk()) << program.status().message();
  const Program &p = **program;
  ASSERT_EQ(p.entries().size(), 2u);
  const llmc_entry_record *run = p.findEntry("run");
  ASSERT_NE(run, nullptr);
  EXPECT_EQ(run, p.findEntry(LLMC_ENTRY_RUN));
  EXPECT_EQ(p.findEntry(LLMC_ENTRY_SESSION), p.findEntry("session"));
  EXPECT_EQ(p.findEntry("nothing"), nullptr);
  EXPECT_EQ(p.devices().size(), 2u);
  EXPECT_EQ(p.string(p.devices()[1].name), "cpu1");
  EXPECT_EQ(p.string(p.symbols()[2].name), "past");
  EXPECT_EQ(p.inputs(*run).size(), 3u);
  EXPECT_EQ(p.string(p.outputs(*run)[1].name), "present.0");
  EXPECT_EQ(p.dimName(p.inputs(*run)[0], 0), "batch");
  EXPECT_EQ(p.dimName(p.inputs(*run)[0], 1), "");
  EXPECT_EQ(p.exprs(*run).size(), 13u);
  EXPECT_EQ(p.bindings(*run).size(), 3u);
  EXPECT_EQ(p.checks(*run).size(), 2u);
  EXPECT_EQ(p.buffers(*run).size(), 8u);
  ASSERT_EQ(p.instructions(*run).size(), 5u);
  EXPECT_EQ(p.label(p.instructions(*run)[4]), "/présent");
  std::span<const uint32_t> args = p.pool(p.instructions(*run)[0].args);
  EXPECT_EQ(std::vector<uint32_t>(args.begin(), args.end()), (std::vector<uint32_t>{0, 4, 5}));
}

TEST(Program, AcceptsMemoryAtAnyAddress) {
  std::string bytes = makeTestProgram().encode();
  for (size_t shift = 0; shift < 8; ++shift) {
    std::string shifted = std::string(shift, 'x') + bytes;
    EXPECT_TRUE(load(std::string_view(shifted).substr(shift)).isOk());
  }
}

TEST(Program, PrintsReadably) {
  auto program = load(makeTestProgram().encode());
  ASSERT_TRUE(program.isOk());
  std::string text = printProgram(**program);
  for (const char *line :
       {"device 1 cpu1 (driver cpu)", "entry session (session)",
        "input_ids : i64 [batch, sequence] ids i0",
        "present.0 : f32 [batch, sequence + past] present to input 1 along axis 1 o3",
        "unused : bool [] (unused)", "sequence + past <= 8, else: more than 8 tokens",
        "w4  cpu0: 128 bytes, weights at 64", "a6  cpu0: batch * sequence * 8 bytes, memory of b5",
        "b7  cpu1: ", "k2  cpu0: cache of 2 f32 x 3, blocks of 1536 bytes",
        "dispatch cpu0 matmul_f32_8x8 [i0, w4] -> [b5] (batch * sequence, ",
        "@ /h.0/attn/c_attn/Gemm", "wait cpu1"})
    EXPECT_NE(text.find(line), text.npos) << line << "\n" << text;
  EXPECT_NE(printSymbols(**program).find("past = tokens in the cache"), std::string::npos);
  EXPECT_NE(printKernels(**program).find("append_kv: 1 -> 1, 1 scalars"), std::string::npos);
  EXPECT_EQ(printExpr(**program, (*program)->entries()[0], 10),
            "min(floordiv(batch * sequence * 8, 8), ceildiv(batch * sequence * 8, 8))");
}

TEST(Program, PrintsHostileTextAndExpressionsShortly) {
  TestProgram source = makeTestProgram();
  source.checks[0].message = source.addString("\x1b[2J" + std::string(60000, 'm'));
  // Doubling 60 times: written out it would have 2^60 terms. Appended to the last entry.
  for (uint32_t i = 0; i < 60; ++i) {
    uint32_t last = source.entries[1].exprs.count - 1;
    source.exprs.push_back({LLMC_EXPR_ADD, last, last, 0, 0});
    ++source.entries[1].exprs.count;
  }
  source.buffers.back().size_expr = 63;
  source.buffers[source.entries[1].buffers.begin].size_expr = 63;
  auto program = load(source.encode());
  ASSERT_TRUE(program.isOk()) << program.status().message();
  std::string text = printAll(**program);
  EXPECT_LT(text.size(), 20000u);
  EXPECT_EQ(text.find('\x1b'), text.npos);
  EXPECT_NE(text.find("\\x1b[2J"), text.npos);
}

TEST(Program, AcceptsNoEntriesAtAll) {
  TestProgram source;
  llmc_str name = source.addString("cpu");
  source.devices.push_back({name, name});
  auto program = load(source.encode(), 0);
  ASSERT_TRUE(program.isOk()) << program.status().message();
  EXPECT_TRUE((*program)->entries().empty());
}

struct Damage {
  const char *name;
  const char *message; ///< part of the error
  std::function<void(TestProgram &)> apply;
};

const Damage kDamages[] = {
    {"NoDevice", "first device is not a CPU", [](auto &p) { p.devices.clear(); }},
    {"FirstDeviceNotCpu", "first device is not a CPU",
     [](auto &p) { p.devices[0].driver = p.addString("null"); }},
    {"TwoDevicesOfOneName", "two devices are named 'cpu0'",
     [](auto &p) { p.devices[1].name = p.devices[0].name; }},
    {"TooManyDevices", "65 devices; at most 64",
     [](auto &p) { p.devices.resize(65, p.devices[0]); }},
    {"StringPastEnd", "is not within the", [](auto &p) { p.symbols[0].name.offset = 1u << 20; }},
    {"StringSizeOverflows", "is not within the",
     [](auto &p) { p.symbols[0].name = {0xFFFFFFF0u, 0xFFFFFFF0u}; }},
    {"StringTooLong", "is not within the",
     [](auto &p) { p.symbols[0].name = p.addString(std::string(65536, 'x')); }},
    {"StringSplitsCharacter", "within a character",
     [](auto &p) {
       p.symbols[0].name = p.addString("é");
       p.symbols[0].name.size = 1;
     }},
    {"StringBeginsWithinCharacter", "within a character",
     [](auto &p) {
       p.symbols[0].name = p.addString("é");
       p.symbols[0].name.offset += 1;
       p.symbols[0].name.size = 1;
     }},
    {"TextNotUtf8", "not UTF-8", [](auto &p) { p.strings += "\xff"; }},
    {"TextOverlong", "not UTF-8", [](auto &p) { p.strings += "\xc0\xaf"; }},
    {"TextOverlongOfThree", "not UTF-8", [](auto &p) { p.strings += "\xe0\x80\xaf"; }},
    {"TextSurrogate", "not UTF-8", [](auto &p) { p.strings += "\xed\xa0\x80"; }},
    {"TextAboveUnicode", "not UTF-8", [](auto &p) { p.strings += "\xf4\x90\x80\x80"; }},
    {"TextCutOff", "not UTF-8", [](auto &p) { p.strings += "\xe2\x82"; }},
    {"TextHasNul", "not UTF-8", [](auto &p) { p.strings += '\0'; }},
    {"EmptySymbolName", "is empty", [](auto &p) { p.symbols[0].name.size = 0; }},
    {"TwoSymbolsOfOneName", "two symbols are named 'batch'",
     [](auto &p) { p.symbols[1] = p.symbols[0]; }},
    {"KernelNameNoIdentifier", "no C identifier",
     [](auto &p) { p.kernels[0].name = p.addString("a-b"); }},
    {"KernelNameBeginsWithDigit", "no C identifier",
     [](auto &p) { p.kernels[0].name = p.addString("1a"); }},
    {"TwoKernelsOfOneName", "two kernels are named",
     [](auto &p) { p.kernels[1].name = p.kernels[0].name; }},
    {"KernelScratchTooLarge", "of scratch; at most",
     [](auto &p) { p.kernels[0].scratch_bytes = ~0ull; }},
    {"KernelMoreOutputsThanOperands", "4 of them outputs",
     [](auto &p) { p.kernels[0].output_count = 4; }},
    {"KernelTooManyOperands", "has 257 operands", [](auto &p) { p.kernels[0].operand_count = 257; }},
    {"KernelFlags", "flags 1", [](auto &p) { p.kernels[0].flags = 1; }},

    {"EntryKind", "unknown kind 3", [](auto &p) { p.entries[0].kind = 3; }},
    {"EntryReserved", "unknown kind", [](auto &p) { p.entries[0].reserved = 1; }},
    {"TwoEntriesOfOneName", "two entries are named 'run'",
     [](auto &p) { p.entries[1].name = p.entries[0].name; }},
    {"EntryRangePastEnd", "instructions 5 to 4294967300",
     [](auto &p) { p.entries[1].instructions.count = 0xFFFFFFFFu; }},
    {"EntryRangesOverlap", "must begin at 5", [](auto &p) { p.entries[1].instructions.begin = 0; }},
    {"EntryRangesLeaveGap", "must begin at 0", [](auto &p) { p.entries[0].exprs.begin = 1; }},
    {"RecordsOfNoEntry", "1 of its 3 checks belong to no entry",
     [](auto &p) { p.checks.push_back(p.checks[0]); }},

    {"ExprOperation", "unknown operation 11", [](auto &p) { p.exprs[0].op = 11; }},
    {"ExprUsesItself", "do not both precede it", [](auto &p) { p.exprs[4].a = 4; }},
    {"ExprUsesLater", "do not both precede it", [](auto &p) { p.exprs[4].b = 5; }},
    {"ExprSymbolTooLarge", "names symbol 3", [](auto &p) { p.exprs[0].value = 3; }},
    {"ExprSymbolNegative", "names symbol -1", [](auto &p) { p.exprs[0].value = -1; }},
    {"ExprReserved", "reserved", [](auto &p) { p.exprs[0].reserved = 1; }},
    {"ExprUnboundSymbol", "nothing gives a value",
     [](auto &p) { p.exprs[p.entries[1].exprs.begin].value = 0; }},

    {"IoDtype", "element type 8", [](auto &p) { p.ios[0].dtype = 8; }},
    {"IoRoleUnknown", "role 10", [](auto &p) { p.ios[0].role = 10; }},
    {"IoRoleOfOutput", "role 7", [](auto &p) { p.ios[0].role = LLMC_ROLE_LOGITS; }},
    {"IoRoleOfInput", "role 1", [](auto &p) { p.ios[3].role = LLMC_ROLE_IDS; }},
    {"IoRankTooLarge", "lists 65 expressions",
     [](auto &p) { p.ios[0].dims = p.addPool(std::vector<uint32_t>(65)); }},
    {"IoDimsPastPool", "is not within the", [](auto &p) { p.ios[0].dims.begin = 1u << 30; }},
    {"IoDimsOverflow", "is not within the", [](auto &p) { p.ios[0].dims.begin = 0xFFFFFFFFu; }},
    {"IoDimNotAnExpr", "names expression 13", [](auto &p) { p.ios[0].dims = p.addPool({0, 13}); }},
    {"IoDimNamesCount", "words of dim names", [](auto &p) { p.ios[0].dim_names.count = 2; }},
    {"IoDimNameOutside", "name of a dim",
     [](auto &p) { p.ios[0].dim_names = p.addPool({0, 1, 1u << 20, 1}); }},
    {"IoReserved", "reserved", [](auto &p) { p.ios[0].reserved = 1; }},
    {"IoTwoOfOneName", "two inputs are named 'input_ids'",
     [](auto &p) { p.ios[1].name = p.ios[0].name; }},
    {"IoCacheAxisTooLarge", "cache axis is 2", [](auto &p) { p.ios[1].cache_axis = 2; }},
    {"IoCacheAxisWithoutCache", "cache axis is 0", [](auto &p) { p.ios[0].cache_axis = 0; }},
    {"IoPairOutside", "paired with 7", [](auto &p) { p.ios[1].pair = 7; }},
    {"IoPairNotMutual", "paired with 1", [](auto &p) { p.ios[4].pair = LLMC_NONE; }},
    {"IoPairOfWrongRole", "paired with 0", [](auto &p) { p.ios[0].pair = 0; }},
    {"IoBufferOutside", "names buffer 8", [](auto &p) { p.ios[0].buffer = 8; }},
    {"IoBufferOfAnother", "does not name it", [](auto &p) { p.ios[0].buffer = 1; }},
    {"IoBufferOfOtherKind", "does not name it", [](auto &p) { p.ios[0].buffer = 4; }},
    {"OutputWithoutBuffer", "names buffer", [](auto &p) { p.ios[3].buffer = LLMC_NONE; }},
    {"InputNamedByTwoBuffers", "does not name it", [](auto &p) { p.buffers[1].source = 0; }},

    {"BindingSymbol", "names symbol 3", [](auto &p) { p.bindings[0].symbol = 3; }},
    {"BindingTwice", "second value", [](auto &p) { p.bindings[1] = p.bindings[0]; }},
    {"BindingKind", "unknown kind 4", [](auto &p) { p.bindings[0].kind = 4; }},
    {"BindingInput", "names input 3", [](auto &p) { p.bindings[0].input = 3; }},
    {"BindingDim", "names dim 2", [](auto &p) { p.bindings[0].dim = 2; }},
    {"BindingOfOtherDim", "is not symbol 0", [](auto &p) { p.bindings[0].dim = 1; }},
    {"BindingOfSessionInRun", "asks a session",
     [](auto &p) { p.bindings[0].kind = LLMC_BIND_SESSION_SEQ; }},

    {"CheckKind", "check 0 is of the unknown kind 3", [](auto &p) { p.checks[0].kind = 3; }},
    {"CheckReserved", "check 0", [](auto &p) { p.checks[0].reserved = 1; }},
    {"CheckExprA", "names expression 13", [](auto &p) { p.checks[0].a = 13; }},
    {"CheckExprB", "names expression 13", [](auto &p) { p.checks[0].b = 13; }},
    {"CheckMessage", "message", [](auto &p) { p.checks[0].message.size = 1u << 31; }},

    {"BufferKind", "kind 7 is unknown", [](auto &p) { p.buffers[5].kind = 7; }},
    {"BufferDevice", "names device 2", [](auto &p) { p.buffers[5].device = 2; }},
    {"BufferSizeExpr", "names expression 13", [](auto &p) { p.buffers[5].size_expr = 13; }},
    {"BufferLifeBackwards", "lives from instruction 3 to 2",
     [](auto &p) { p.buffers[5].first = 3; }},
    {"BufferLifePastEnd", "to 5 of 5", [](auto &p) { p.buffers[5].last = 5; }},
    {"BufferLifeTooShort", "uses buffer 5, which lives from instruction 0 to 0",
     [](auto &p) { p.buffers[5].last = 0; }},
    {"BufferLifeTooLate", "uses buffer 7, which lives from instruction 2 to 2",
     [](auto &p) { p.buffers[7].first = 2; }},
    {"InputOnOtherDevice", "caller's memory", [](auto &p) { p.buffers[0].device = 1; }},
    {"InputSource", "names input 3", [](auto &p) { p.buffers[0].source = 3; }},
    {"OutputSource", "names output 2", [](auto &p) { p.buffers[2].source = 2; }},
    {"WeightPastEnd", "are not within the 192 bytes", [](auto &p) { p.buffers[4].size = 129; }},
    {"WeightOffsetPastEnd", "are not within", [](auto &p) { p.buffers[4].offset = 256; }},
    {"WeightOverflows", "are not within", [](auto &p) { p.buffers[4].size = ~0ull - 63; }},
    {"WeightMisaligned", "multiple of 64",
     [](auto &p) {
       p.buffers[4].offset = 32;
       p.buffers[4].size = 1;
     }},
    {"AliasOutside", "names buffer 8", [](auto &p) { p.buffers[6].source = 8; }},
    {"AliasOfItself", "cannot be an alias of buffer 6", [](auto &p) { p.buffers[6].source = 6; }},
    {"AliasOnOtherDevice", "cannot be an alias of buffer 7",
     [](auto &p) { p.buffers[6].source = 7; }},
    {"AliasOfCache", "cannot be an alias of buffer 2",
     [](auto &p) {
       auto &buffer = p.buffers[p.entries[1].buffers.begin + 1];
       buffer.kind = LLMC_BUFFER_ALIAS;
       buffer.source = 2;
     }},
    {"CacheInRun", "entry is no session",
     [](auto &p) { p.buffers[5] = p.buffers.back(); }},
    {"CacheLayout", "cache layout 2", [](auto &p) { p.buffers.back().kv_layout = 2; }},
    {"CacheDtype", "element type 0", [](auto &p) { p.buffers.back().kv_dtype = 0; }},
    {"CacheSize", "which do not hold 64 tokens", [](auto &p) { p.buffers.back().size -= 1; }},
    {"CacheSizeOverflows", "which do not hold 64 tokens",
     [](auto &p) {
       p.buffers.back().kv_heads = 0x80000000u;
       p.buffers.back().kv_head_size = 0x80000000u;
       p.buffers.back().size = 0;
     }},
    {"CacheEmpty", "which do not hold 64 tokens",
     [](auto &p) {
       p.buffers.back().kv_heads = 0;
       p.buffers.back().size = 0;
     }},

    {"InstructionOperation", "operation 5 is unknown", [](auto &p) { p.instructions[0].op = 5; }},
    {"InstructionDevice", "names device 2", [](auto &p) { p.instructions[0].device = 2; }},
    {"InstructionLabel", "label",
     [](auto &p) { p.instructions[0].label_offset = 0xFFFFFFFFu; }},
    {"InstructionArithmetic", "expression",
     [](auto &p) { p.instructions[0].arithmetic = uint32_t(p.exprs.size()); }},
    {"InstructionArgsPastPool", "is not within the",
     [](auto &p) { p.instructions[0].args.begin = sizeof(p) << 20; }},
    {"InstructionArg", "names buffer 8", [](auto &p) { p.instructions[0].args = p.addPool({0, 8, 5}); }},
    {"InstructionTooManyArgs", "lists 257 buffers",
     [](auto &p) { p.instructions[0].args = p.addPool(std::vector<uint32_t>(257)); }},
    {"InstructionScalar", "names expression 13",
     [](auto &p) { p.instructions[0].scalars = p.addPool({0, 13}); }},
    {"DispatchKernel", "names kernel 2", [](auto &p) { p.instructions[0].target = 2; }},
    {"DispatchOperandCount", "gives 2 operands",
     [](auto &p) { p.instructions[0].args = p.addPool({0, 5}); }},
    {"DispatchScalarCount", "and 1 scalars",
     [](auto &p) { p.instructions[0].scalars = p.addPool({5}); }},
    {"DispatchOnOtherDevice", "runs on device 1, but buffer 0 is on device 0",
     [](auto &p) { p.instructions[0].device = 1; }},
    {"DispatchWritesWeight", "which is a weight",
     [](auto &p) { p.instructions[0].args = p.addPool({0, 0, 4}); }},
    {"DispatchWritesInput", "which is an input",
     [](auto &p) { p.instructions[0].args = p.addPool({4, 4, 0}); }},
    {"DispatchWritesAliasOfWeight", "which is a weight",
     [](auto &p) {
       p.buffers[6].source = 4;
       p.instructions[0].args = p.addPool({0, 4, 6});
     }},
    {"DispatchReadsUnwritten", "reads buffer 5, which nothing wrote",
     [](auto &p) { p.instructions[0].args = p.addPool({0, 5, 5}); }},
    {"CopyReadsUnwritten", "reads buffer 7, which nothing wrote",
     [](auto &p) { p.instructions[1] = p.instructions[2]; }},
    {"CopySize", "names expression 13", [](auto &p) { p.instructions[4].target = 13; }},
    {"CopyOperandCount", "gives 1 and 0", [](auto &p) { p.instructions[4].args.count = 1; }},
    {"CopyScalars", "gives 2 and 1", [](auto &p) { p.instructions[4].scalars = p.addPool({0}); }},
    {"CopyToItself", "copies buffer 5 to itself",
     [](auto &p) { p.instructions[4].args = p.addPool({6, 5}); }},
    {"CopyToInput", "which is an input", [](auto &p) { p.instructions[4].args = p.addPool({0, 1}); }},
    {"CopyBetweenDevices", "as a copy", [](auto &p) { p.instructions[1].op = LLMC_OP_COPY; }},
    {"CopyOnOtherDevice", "as a copy", [](auto &p) { p.instructions[4].device = 1; }},
    {"CopyOfCache", "cache buffer",
     [](auto &p) {
       auto &last = p.instructions.back();
       last.op = LLMC_OP_COPY;
       last.args = p.addPool({1, 2});
       last.scalars.count = 0;
     }},
    {"TransferWithinDevice", "as a transfer",
     [](auto &p) { p.instructions[4].op = LLMC_OP_TRANSFER; }},
    {"WaitWithOperands", "wait has no operands",
     [](auto &p) { p.instructions[3].args = p.addPool({0}); }},
};

class ProgramDamage : public testing::TestWithParam<Damage> {};

TEST_P(ProgramDamage, IsFound) {
  TestProgram source = makeTestProgram();
  GetParam().apply(source);
  auto program = load(source.encode());
  ASSERT_FALSE(program.isOk());
  EXPECT_EQ(program.status().code(), Code::Corrupt);
  EXPECT_NE(program.status().message().find(GetParam().message), std::string::npos)
      << program.status().message();
}

INSTANTIATE_TEST_SUITE_P(Each, ProgramDamage, testing::ValuesIn(kDamages),
                         [](const auto &info) { return std::string(info.param.name); });

/// A test program with one number of its header replaced.
std::string withHeader(const std::function<void(llmc_program_header &)> &change) {
  std::string bytes = makeTestProgram().encode();
  llmc_program_header header;
  memcpy(&header, bytes.data(), sizeof header);
  change(header);
  memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

TEST(ProgramHeader, VersionMustMatchExactly) {
  for (auto [major, minor] : {std::pair{1u, 1u}, std::pair{0u, 0u}, std::pair{0u, 2u}}) {
    auto program = load(withHeader([&](llmc_program_header &header) {
      header.version_major = major;
      header.version_minor = minor;
    }));
    ASSERT_FALSE(program.isOk());
    EXPECT_EQ(program.status().code(), Code::Incompatible);
    EXPECT_NE(program.status().message().find(fmt::format("format {}.{}, but", major, minor)),
              std::string::npos);
    EXPECT_NE(program.status().message().find("reads format 0.1"), std::string::npos);
  }
}

TEST(ProgramHeader, TablesMustFit) {
  for (auto change : std::vector<std::function<void(llmc_program_header &)>>{
           [](auto &header) { header.magic[0] = 'X'; },
           [](auto &header) { header.file_size += 1; },
           [](auto &header) { header.exprs.offset += 4; },
           [](auto &header) { header.exprs.offset = 0; },
           [](auto &header) { header.exprs.offset = ~0ull - 7; },
           [](auto &header) { header.exprs.count = ~0ull; },
           [](auto &header) { header.instructions.count = ~0ull / 40 + 2; },
           [](auto &header) { header.strings.count = ~0ull; },
           [](auto &header) { header.pool.count = 1ull << 62; },
       }) {
    auto program = load(withHeader(change));
    ASSERT_FALSE(program.isOk());
    EXPECT_EQ(program.status().code(), Code::Corrupt);
  }
}

TEST(ProgramFuzz, TruncatedAtAnyLengthIsRefused) {
  std::string bytes = makeTestProgram().encode();
  for (size_t size = 0; size < bytes.size(); ++size)
    ASSERT_FALSE(load(std::string(bytes, 0, size)).isOk()) << size;
}

TEST(ProgramFuzz, AnyFlippedByteIsRefusedOrHarmless) {
  const std::string bytes = makeTestProgram().encode();
  size_t refused = 0, accepted = 0;
  for (size_t at = 0; at < bytes.size(); ++at)
    for (int mask : {0x01, 0x02, 0x10, 0x80, 0xFF}) {
      std::string flipped = bytes;
      flipped[at] = static_cast<char>(flipped[at] ^ mask);
      auto program = load(flipped);
      if (program.isOk()) {
        ++accepted;
        EXPECT_FALSE(printAll(**program).empty());
      } else {
        ++refused;
        EXPECT_FALSE(program.status().message().empty());
      }
    }
  // Flips in names and in numbers that may have any value are fine; most others are not.
  EXPECT_GT(refused, accepted / 2);
}

TEST(ProgramFuzz, ManyChangedWordsAreRefusedOrHarmless) {
  const std::string bytes = makeTestProgram().encode();
  const uint32_t words[] = {0, 1, 2, 3, 7, 64, 0x7FFFFFFF, 0x80000000u, 0xFFFFFFFEu, 0xFFFFFFFFu};
  std::mt19937 random(1);
  for (unsigned round = 0; round < 20000; ++round) {
    std::string changed = bytes;
    for (unsigned i = 0; i < 1 + round % 4; ++i) {
      uint32_t word = words[random() % std::size(words)];
      memcpy(changed.data() + random() % (bytes.size() / 4) * 4, &word, sizeof word);
    }
    if (auto program = load(changed); program.isOk())
      EXPECT_FALSE(printAll(**program).empty());
  }
}

} // namespace
} // namespace llmc
