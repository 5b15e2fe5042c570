// SPDX-License-Identifier: Apache-2.0
//
// The layout of `program/main.bin`, and the names of a bundle's entries. The
// runtime owns this contract and the compiler writes to it. All integers are
// little-endian; every table starts at a multiple of 8 from the file's start.
// No field is trusted: runtime/bundle checks each one before use. Reserved
// fields are 0; a field that a record's kind doesn't use is ignored.
//
// Format log (before 1.0 a reader accepts exactly its own version):
//   0.1  first version
#ifndef LLMC_RUNTIME_ABI_BUNDLE_FORMAT_H
#define LLMC_RUNTIME_ABI_BUNDLE_FORMAT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define LLMC_STATIC_ASSERT(cond) static_assert(cond, #cond)
#else
#define LLMC_STATIC_ASSERT(cond) _Static_assert(cond, #cond)
#endif

#define LLMC_FORMAT_MAJOR 0u
#define LLMC_FORMAT_MINOR 1u
#define LLMC_PROGRAM_MAGIC "LLMCPROG" /* 8 bytes, no terminator */

/* Entries of the archive. Code entries are `code/<target>`, e.g. code/x86_64-avx2.so */
#define LLMC_ENTRY_MANIFEST "manifest.json"
#define LLMC_ENTRY_PROGRAM "program/main.bin"
#define LLMC_ENTRY_WEIGHTS "weights.bin"
#define LLMC_ENTRY_TOKENIZER "tokenizer/tokenizer.bin"
#define LLMC_ENTRY_GENERATION "tokenizer/generation.json"

#define LLMC_ALIGN_DEFAULT 64u
#define LLMC_ALIGN_CODE 65536u
#define LLMC_ALIGN_WEIGHTS 2097152u
/* Weights and arena buffers start at multiples of this within their segment. */
#define LLMC_ALIGN_BUFFER 64u

/* Absent index in any u32 index field. */
#define LLMC_NONE 0xFFFFFFFFu

/* Limits: a reader refuses what exceeds them, so a writer must not produce it. */
#define LLMC_MAX_ARCHIVE_ENTRIES 4096u
#define LLMC_MAX_ENTRY_NAME 255u /* bytes of an archive entry's name */
#define LLMC_MAX_MANIFEST_BYTES (4u << 20)
#define LLMC_MAX_MANIFEST_DEPTH 32u
#define LLMC_MAX_PROGRAM_BYTES (1u << 30)
#define LLMC_MAX_STRING 65535u /* bytes of one string of a program */
#define LLMC_MAX_DEVICES 64u
#define LLMC_MAX_SYMBOLS 4096u
#define LLMC_MAX_KERNELS (1u << 20)
#define LLMC_MAX_ENTRIES 256u /* entry points */
#define LLMC_MAX_EXPRS (1u << 20)
#define LLMC_MAX_CHECKS (1u << 20)
#define LLMC_MAX_BUFFERS (1u << 20)
#define LLMC_MAX_IOS (1u << 16)
#define LLMC_MAX_INSTRUCTIONS (1u << 20)
#define LLMC_MAX_RANK 64u                 /* dims of an input or output */
#define LLMC_MAX_OPERANDS 256u            /* buffers of one dispatch */
#define LLMC_MAX_SCALARS 256u             /* scalars of one dispatch */
#define LLMC_MAX_SCRATCH_BYTES (1u << 30) /* of a kernel, per worker */

/* Element types: the numbers of ONNX TensorProto.DataType. */
enum {
  LLMC_DTYPE_F32 = 1,
  LLMC_DTYPE_U8 = 2,
  LLMC_DTYPE_I8 = 3,
  LLMC_DTYPE_U16 = 4,
  LLMC_DTYPE_I16 = 5,
  LLMC_DTYPE_I32 = 6,
  LLMC_DTYPE_I64 = 7,
  LLMC_DTYPE_BOOL = 9, /* one byte, 0 or 1 */
  LLMC_DTYPE_F16 = 10,
  LLMC_DTYPE_F64 = 11,
  LLMC_DTYPE_U32 = 12,
  LLMC_DTYPE_U64 = 13,
  LLMC_DTYPE_BF16 = 16,
};

/* A string: bytes [offset, offset + size) of the strings table. The table as a whole and each
 * string are UTF-8 without NUL bytes; there is no terminator. */
typedef struct llmc_str {
  uint32_t offset;
  uint32_t size;
} llmc_str;

/* A table: `count` records starting `offset` bytes into the file. */
typedef struct llmc_table {
  uint64_t offset;
  uint64_t count;
} llmc_table;

/* Records [begin, begin + count) of a table. */
typedef struct llmc_range {
  uint32_t begin;
  uint32_t count;
} llmc_range;

typedef struct llmc_program_header {
  char magic[8];
  uint32_t version_major;
  uint32_t version_minor;
  uint64_t file_size;
  llmc_table strings;      /* bytes */
  llmc_table pool;         /* uint32_t: index lists that other records name by llmc_range */
  llmc_table devices;      /* llmc_device_record */
  llmc_table symbols;      /* llmc_symbol_record */
  llmc_table kernels;      /* llmc_kernel_record */
  llmc_table entries;      /* llmc_entry_record */
  llmc_table exprs;        /* llmc_expr_record */
  llmc_table bindings;     /* llmc_binding_record */
  llmc_table checks;       /* llmc_check_record */
  llmc_table buffers;      /* llmc_buffer_record */
  llmc_table ios;          /* llmc_io_record */
  llmc_table instructions; /* llmc_instruction_record */
} llmc_program_header;
LLMC_STATIC_ASSERT(sizeof(llmc_program_header) == 24 + 12 * 16);

/* A device instance the program was partitioned for. Device 0 always exists and is a CPU. */
typedef struct llmc_device_record {
  llmc_str name;   /* "cpu0" */
  llmc_str driver; /* "cpu", "null", … */
} llmc_device_record;
LLMC_STATIC_ASSERT(sizeof(llmc_device_record) == 16);

/* A name for a run-time size. Values are >= 0. */
typedef struct llmc_symbol_record {
  llmc_str name;
} llmc_symbol_record;
LLMC_STATIC_ASSERT(sizeof(llmc_symbol_record) == 8);

/* Code symbol `name`, the same in every image of the device's driver: a C identifier, unique. */
typedef struct llmc_kernel_record {
  llmc_str name;          /* exported symbol */
  llmc_str label;         /* what a person sees in --profile, e.g. "matmul f32 768x2304 +gelu" */
  uint64_t scratch_bytes; /* per worker, 64-byte aligned */
  uint32_t operand_count; /* buffers it takes: inputs, then outputs; in place = in both lists */
  uint32_t scalar_count;  /* int64 scalars it takes */
  uint32_t output_count;  /* how many of the operands, at their end, it writes */
  uint32_t flags;         /* reserved, 0 */
} llmc_kernel_record;
LLMC_STATIC_ASSERT(sizeof(llmc_kernel_record) == 40);

/* Size expressions, evaluated in order once per tuple of symbol values; a and b are indices of
 * earlier records of the same entry (relative to the entry's range). Arithmetic is checked:
 * overflow, division by zero and a failed BROADCAST are errors of the call. */
enum {
  LLMC_EXPR_CONST = 1,  /* value */
  LLMC_EXPR_SYMBOL = 2, /* value = index into symbols */
  LLMC_EXPR_ADD = 3,
  LLMC_EXPR_MUL = 4,
  LLMC_EXPR_FLOORDIV = 5,
  LLMC_EXPR_CEILDIV = 6,
  LLMC_EXPR_MOD = 7, /* result has the sign of b, as floor division's rest */
  LLMC_EXPR_MIN = 8,
  LLMC_EXPR_MAX = 9,
  LLMC_EXPR_BROADCAST = 10, /* a if b == 1 or a == b; b if a == 1; else an error */
};
typedef struct llmc_expr_record {
  uint32_t op;
  uint32_t a;
  uint32_t b;
  uint32_t reserved;
  int64_t value;
} llmc_expr_record;
LLMC_STATIC_ASSERT(sizeof(llmc_expr_record) == 24);

/* Where an entry's symbol gets its value. Each symbol an entry uses is bound exactly once, before
 * any other expression is evaluated. */
enum {
  /* dim `dim` of input `input` (relative to the entry's inputs), whose expr is this symbol alone */
  LLMC_BIND_INPUT_DIM = 1,
  LLMC_BIND_SESSION_SEQ = 2,  /* session entries: tokens of this chunk, >= 1 */
  LLMC_BIND_SESSION_PAST = 3, /* session entries: tokens already in the cache */
};
typedef struct llmc_binding_record {
  uint32_t symbol;
  uint32_t kind;
  uint32_t input;
  uint32_t dim;
} llmc_binding_record;
LLMC_STATIC_ASSERT(sizeof(llmc_binding_record) == 16);

/* A condition that must hold for a call; `message` completes "cannot run: ". */
enum { LLMC_CHECK_EQ = 1, LLMC_CHECK_LE = 2 };
typedef struct llmc_check_record {
  uint32_t kind;
  uint32_t a; /* expr, relative to the entry's range */
  uint32_t b;
  uint32_t reserved;
  llmc_str message;
} llmc_check_record;
LLMC_STATIC_ASSERT(sizeof(llmc_check_record) == 24);

/* Memory that instructions name. Indices are relative to the entry's buffer range. An input and
 * its buffer name each other, and so do an output and its buffer; these are the caller's memory,
 * hence on device 0. Weights and inputs are never written, and arena buffers never read before an
 * instruction wrote them. An alias is on its source's device, is no larger than its source (the
 * executor checks: sizes are known only at run time) and lives as long as it. */
enum {
  LLMC_BUFFER_ARENA = 1, /* lives from instruction `first` to `last` inclusive; size = expr bytes */
  LLMC_BUFFER_INPUT = 2, /* memory of input `source`, relative to the entry's inputs */
  LLMC_BUFFER_OUTPUT = 3, /* memory of output `source`, relative to the entry's outputs */
  LLMC_BUFFER_WEIGHT = 4, /* bytes [offset, offset + size) of weights.bin; read-only */
  LLMC_BUFFER_ALIAS = 5,  /* the memory of buffer `source` (never itself an alias, nor KV) */
  LLMC_BUFFER_KV = 6,     /* session entries: state in 64-token blocks; see below */
};
/* A KV buffer is one layer's keys or values of one sequence. What a kernel receives for it is not
 * the data but a `void *const *` to the block pointers; block i holds tokens [64 i, 64 i + 64) as
 * [heads][64][head_size] elements of `dtype` unless `layout` says otherwise. */
#define LLMC_KV_BLOCK_TOKENS 64u
enum {
  LLMC_KV_LAYOUT_ROWS = 0,   /* (heads, 64 tokens, size) */
  LLMC_KV_LAYOUT_COLUMNS = 1 /* (heads, size, 64 tokens) */
};
typedef struct llmc_buffer_record {
  uint32_t kind;
  uint32_t device;
  uint32_t source;    /* io or buffer index, else LLMC_NONE */
  uint32_t size_expr; /* bytes; expr relative to the entry's range; LLMC_NONE for weight and KV */
  uint32_t first;     /* arena: instruction indices relative to the entry's range */
  uint32_t last;
  uint64_t offset; /* weights: a multiple of LLMC_ALIGN_BUFFER */
  uint64_t size;   /* weights: bytes; KV: bytes of one 64-token block */
  uint32_t kv_heads;
  uint32_t kv_head_size;
  uint32_t kv_dtype;
  uint32_t kv_layout;
} llmc_buffer_record;
LLMC_STATIC_ASSERT(sizeof(llmc_buffer_record) == 56);

/* What an input or output means to a generation loop. */
enum {
  LLMC_ROLE_OTHER = 0,
  LLMC_ROLE_IDS = 1,            /* token ids (batch, sequence) */
  LLMC_ROLE_EMBEDDINGS = 2,     /* (batch, sequence, hidden) in place of ids */
  LLMC_ROLE_POSITIONS = 3,      /* (batch, sequence): past, past + 1, … */
  LLMC_ROLE_MASK = 4,           /* (batch, past + sequence): 1 for real tokens */
  LLMC_ROLE_PAST = 5,           /* a cache input; `pair` = index of the output that continues it */
  LLMC_ROLE_PRESENT = 6,        /* a cache output; `pair` = index of the input it feeds */
  LLMC_ROLE_LOGITS = 7,         /* (batch, sequence, vocabulary), or (batch, vocabulary) */
  LLMC_ROLE_CACHE_POSITION = 8, /* (sequence): past, past + 1, … */
  LLMC_ROLE_USE_CACHE = 9,      /* bool: is there a past? */
};
typedef struct llmc_io_record {
  llmc_str name;
  uint32_t dtype;
  uint32_t role;
  llmc_range dims;      /* pool: expr indices relative to the entry's range, outermost first */
  llmc_range dim_names; /* pool: 2 words (offset, size into strings) per dim; count = 2 * rank */
  uint32_t buffer;      /* relative to the entry's range; LLMC_NONE for an input that is not used */
  uint32_t pair;        /* relative to the entry's outputs or inputs, or LLMC_NONE; mutual */
  uint32_t cache_axis;  /* PAST, PRESENT: the dimension that grows; LLMC_NONE: none does */
  uint32_t reserved;
} llmc_io_record;
LLMC_STATIC_ASSERT(sizeof(llmc_io_record) == 48);

/* Instructions run in order; numbers are never reused. `args` (buffers) and `scalars` (exprs) are
 * pool ranges, relative to the entry's ranges. Buffers lie on `device` unless said otherwise. */
enum {
  /* kernel `target` on device `device`: args = buffers, scalars = exprs */
  LLMC_OP_DISPATCH = 1,
  /* copy expr `target` bytes: args = {destination buffer, source buffer}, same device */
  LLMC_OP_COPY = 2,
  /* copy expr `target` bytes between two different devices: args = {destination buffer, source
   * buffer}; `device` is the destination's, the source buffer's record names its own */
  LLMC_OP_TRANSFER = 3,
  /* wait until everything submitted to `device` has finished; no args */
  LLMC_OP_WAIT = 4,
};
typedef struct llmc_instruction_record {
  uint32_t op;
  uint32_t device;
  uint32_t target;
  uint32_t label_offset; /* string: the ONNX node it came from, for errors and profiles */
  uint32_t label_size;
  llmc_range args;
  llmc_range scalars;
  uint32_t arithmetic; /* dispatch: expr, the operations of its products, for profiles; or NONE */
} llmc_instruction_record;
LLMC_STATIC_ASSERT(sizeof(llmc_instruction_record) == 40);

/* RUN entries have the model's exact inputs and outputs. SESSION entries keep the cache in KV
 * buffers, take one chunk of one sequence and give the logits of its last token. The entries'
 * ranges of a table lie in it one after another, in the order of the entries (inputs before
 * outputs), without gaps or overlaps, and together cover it. */
enum { LLMC_ENTRY_RUN = 1, LLMC_ENTRY_SESSION = 2 };
typedef struct llmc_entry_record {
  llmc_str name;
  uint32_t kind;
  uint32_t reserved;
  llmc_range inputs;  /* ios */
  llmc_range outputs; /* ios */
  llmc_range exprs;
  llmc_range bindings;
  llmc_range checks;
  llmc_range buffers;
  llmc_range instructions;
} llmc_entry_record;
LLMC_STATIC_ASSERT(sizeof(llmc_entry_record) == 72);

#ifdef __cplusplus
} // extern "C"
#endif

#endif // LLMC_RUNTIME_ABI_BUNDLE_FORMAT_H
