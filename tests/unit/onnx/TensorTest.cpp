// SPDX-License-Identifier: Apache-2.0
//
// Every way in which ONNX stores a tensor, with bytes written out by hand.
#include "tests/unit/onnx/ImportFixture.h"

#include <cmath>

using namespace mlir;

namespace llmc::test {
namespace {

using P = pb::TensorProto;

/// A model whose output is the initializer "w".
class TensorTest : public ImportTest {
protected:
  TensorTest() : model(makeModel()), tensor(model.mutable_graph()->add_initializer()) {
    addOutput(model, "w");
  }
  void reset(int type, std::vector<int64_t> dims) {
    tensor->Clear();
    tensor->set_name("w");
    tensor->set_data_type(type);
    for (int64_t dim : dims)
      tensor->add_dims(dim);
  }
  onnx::WeightOp weight() {
    onnx::WeightOp found;
    module->walk([&](onnx::WeightOp op) { found = op; });
    return found;
  }
  void expectBytes(const std::string &bytes) {
    ASSERT_TRUE(import(model)) << errors[0];
    EXPECT_EQ(bytesOf("w"), bytes);
  }

  pb::ModelProto model;
  P *tensor;
};

TEST_F(TensorTest, TypedFieldsHoldEveryType) {
  struct {
    int type;
    std::vector<int32_t> entries;
    int64_t elements;
    std::string bytes;
  } cases[] = {
      {P::INT32, {-1, 70000}, 2, rawOf<int32_t>({-1, 70000})},
      {P::INT16, {-2, 7}, 2, rawOf<int16_t>({-2, 7})},
      {P::UINT16, {65535, 7}, 2, rawOf<uint16_t>({65535, 7})},
      {P::INT8, {-128, 127}, 2, "\x80\x7f"},
      {P::UINT8, {255, 1}, 2, "\xff\x01"},
      {P::BOOL, {1, 0, 5}, 3, std::string("\1\0\1", 3)},
      {P::FLOAT16, {0x3c00, 0xc000}, 2, rawOf<uint16_t>({0x3c00, 0xc000})}, // 1, -2
      {P::BFLOAT16, {0x3f80}, 1, rawOf<uint16_t>({0x3f80})},
      {P::FLOAT8E4M3FN, {0x38}, 1, "\x38"},
      {P::FLOAT8E8M0, {0x7f}, 1, "\x7f"},
      {P::INT4, {0x21, 0x0f}, 3, "\x21\x0f"}, // 1, 2, -1, padding
      {P::UINT4, {0xfe}, 2, "\xfe"},
      {P::FLOAT4E2M1, {0x52}, 2, "\x52"},
      {P::INT2, {0xe4, 0x01}, 5, "\xe4\x01"},
      {P::UINT2, {0xe4}, 4, "\xe4"},
      {P::FLOAT6E2M3, {0x3f, 0x01, 0x20, 0x15, 0x2a}, 5, std::string("\x7f\x00\x56\x2a", 4)},
  };
  for (const auto &c : cases) {
    reset(c.type, {c.elements});
    for (int32_t entry : c.entries)
      tensor->add_int32_data(entry);
    expectBytes(c.bytes);
    reset(c.type, {c.elements});
    tensor->set_raw_data(c.bytes);
    expectBytes(c.bytes);
    reset(c.type, {c.elements + 8});
    tensor->set_raw_data(c.bytes);
    expectError(model, "[LLMC1052] tensor 'w' needs");
  }
  reset(P::FLOAT, {2});
  tensor->add_float_data(1.5f);
  tensor->add_float_data(NAN);
  expectBytes(rawOf<float>({1.5f, NAN}));
  reset(P::COMPLEX64, {1});
  tensor->add_float_data(1);
  tensor->add_float_data(2);
  expectBytes(rawOf<float>({1, 2}));
  reset(P::DOUBLE, {1});
  tensor->add_double_data(0.1);
  expectBytes(rawOf<double>({0.1}));
  reset(P::COMPLEX128, {1});
  tensor->add_double_data(1);
  tensor->add_double_data(2);
  expectBytes(rawOf<double>({1, 2}));
  reset(P::INT64, {1});
  tensor->add_int64_data(INT64_MIN);
  expectBytes(rawOf<int64_t>({INT64_MIN}));
  reset(P::UINT64, {1});
  tensor->add_uint64_data(UINT64_MAX);
  expectBytes(rawOf<uint64_t>({UINT64_MAX}));
  reset(P::UINT32, {1});
  tensor->add_uint64_data(UINT32_MAX);
  expectBytes(rawOf<uint32_t>({UINT32_MAX}));
}

TEST_F(TensorTest, SmallTensorsAreAttributesToo) {
  struct {
    int type;
    std::string raw;
    int64_t elements;
    const char *text;
  } cases[] = {
      {P::FLOAT, rawOf<float>({1, -2}), 2, "dense<[1.000000e+00, -2.000000e+00]> : tensor<2xf32>"},
      {P::FLOAT, rawOf<float>({3, 3}), 2, "dense<3.000000e+00> : tensor<2xf32>"},
      {P::INT64, rawOf<int64_t>({-1}), 1, "dense<-1> : tensor<1xi64>"},
      {P::UINT8, "\xff\x01", 2, "dense<[255, 1]> : tensor<2xui8>"},
      {P::INT8, "\xff\x01", 2, "dense<[-1, 1]> : tensor<2xi8>"},
      {P::BOOL, std::string("\1\0\1", 3), 3, "dense<[true, false, true]> : tensor<3xi1>"},
      {P::BOOL, "\1\1\1\1\1\1\1\1\1", 9, "dense<true> : tensor<9xi1>"},
      {P::FLOAT16, rawOf<uint16_t>({0x3c00, 0xc000}), 2,
       "dense<[1.000000e+00, -2.000000e+00]> : tensor<2xf16>"},
      {P::INT4, "\x21\x0f", 3, "dense<[1, 2, -1]> : tensor<3xi4>"},
      {P::UINT4, "\x21\x0f", 3, "dense<[1, 2, 15]> : tensor<3xui4>"},
      {P::INT2, "\xe4", 4, "dense<[0, 1, -2, -1]> : tensor<4xi2>"},
      {P::FLOAT4E2M1, "\xb2", 2, "dense<[1.000000e+00, -1.500000e+00]> : tensor<2xf4E2M1FN>"},
      {P::FLOAT8E4M3FN, "\x38\xb8", 2, "dense<[1.000000e+00, -1.000000e+00]> : tensor<2xf8E4M3FN>"},
      {P::FLOAT, "", 0, "dense<> : tensor<0xf32>"},
      {P::COMPLEX64, rawOf<float>({1, 2}), 1,
       "dense<(1.000000e+00,2.000000e+00)> : tensor<1xcomplex<f32>>"},
  };
  for (const auto &c : cases) {
    reset(c.type, {c.elements});
    tensor->set_raw_data(c.raw);
    ASSERT_TRUE(import(model)) << errors[0];
    std::string text;
    llvm::raw_string_ostream(text) << weight().getValueAttr();
    EXPECT_EQ(text, c.text);
  }
  reset(P::FLOAT, {1024});
  tensor->set_raw_data(std::string(4096, 'a'));
  ASSERT_TRUE(import(model));
  EXPECT_TRUE(weight().getValueAttr());
  reset(P::FLOAT, {1025});
  tensor->set_raw_data(std::string(4100, 'a'));
  ASSERT_TRUE(import(model));
  EXPECT_FALSE(weight().getValueAttr());
}

TEST_F(TensorTest, RankZeroAndZeroElements) {
  reset(P::INT64, {});
  tensor->add_int64_data(4);
  expectBytes(rawOf<int64_t>({4}));
  EXPECT_EQ(weight().getType().getRank(), 0);
  reset(P::INT64, {3, 0, int64_t(1) << 62});
  expectBytes("");
  reset(P::INT64, {});
  expectError(model, "needs 8 bytes for its shape, but 0 were found");
}

TEST_F(TensorTest, BoolsAreNormalised) {
  reset(P::BOOL, {4});
  tensor->set_raw_data(std::string("\0\1\2\xff", 4));
  expectBytes(std::string("\0\1\1\1", 4));
}

TEST_F(TensorTest, ContradictionsAreErrors) {
  reset(P::FLOAT, {1});
  tensor->add_float_data(1);
  tensor->set_raw_data("1234");
  expectError(model, "[LLMC1053] tensor 'w' has both raw_data and float_data");
  reset(P::FLOAT, {1});
  tensor->add_float_data(1);
  tensor->add_int32_data(1);
  expectError(model, "[LLMC1053]");
  reset(P::FLOAT, {1});
  tensor->add_int32_data(1);
  expectError(model,
              "[LLMC1054] tensor 'w' has int32_data, which does not hold elements of type float");
  reset(P::FLOAT, {3});
  tensor->add_float_data(1);
  expectError(model, "[LLMC1052]");
  reset(99, {1});
  expectError(model, "[LLMC1050]");
  reset(P::UNDEFINED, {1});
  expectError(model, "[LLMC1050]");
  reset(P::FLOAT, {-1});
  expectError(model, "[LLMC1051] tensor 'w' has the negative dim -1");
  reset(P::FLOAT, {int64_t(1) << 32, int64_t(1) << 32, int64_t(1) << 32});
  expectError(model, "[LLMC1051]");
}

TEST_F(TensorTest, StringsAreAttributesOnly) {
  reset(P::STRING, {2});
  tensor->add_string_data("a");
  tensor->add_string_data("b\"\\");
  ASSERT_TRUE(import(model));
  EXPECT_EQ(weight().getKey(), "");
  EXPECT_EQ(cast<DenseStringElementsAttr>(weight().getValueAttr()).getRawStringData()[1], "b\"\\");
  tensor->add_string_data("c");
  expectError(model, "[LLMC1052]");
  reset(P::STRING, {1});
  tensor->set_raw_data("a");
  expectError(model, "[LLMC1054]");
}

TEST_F(ImportTest, ConstantsInEveryForm) {
  pb::ModelProto model = makeModel();
  auto constant = [&](const std::string &name, const std::string &form,
                      pb::AttributeProto::AttributeType type) {
    addOutput(model, name);
    return addAttribute(addNode(model, name + "_node:Constant", {}, {name}), form, type);
  };
  setTensor(constant("tensor", "value", pb::AttributeProto::TENSOR)->mutable_t(), "ignored",
            P::FLOAT, {2000}, std::string(8000, 'x'));
  constant("int", "value_int", pb::AttributeProto::INT)->set_i(-5);
  pb::AttributeProto *ints = constant("ints", "value_ints", pb::AttributeProto::INTS);
  ints->add_ints(1);
  ints->add_ints(2);
  constant("float", "value_float", pb::AttributeProto::FLOAT)->set_f(0.5f);
  constant("floats", "value_floats", pb::AttributeProto::FLOATS)->add_floats(2);
  constant("string", "value_string", pb::AttributeProto::STRING)->set_s("s");
  constant("strings", "value_strings", pb::AttributeProto::STRINGS)->add_strings("t");
  pb::SparseTensorProto *sparse =
      constant("sparse", "sparse_value", pb::AttributeProto::SPARSE_TENSOR)
          ->mutable_sparse_tensor();
  setTensor(sparse->mutable_values(), "v", P::FLOAT, {2}, rawOf<float>({7, 8}));
  setTensor(sparse->mutable_indices(), "i", P::INT64, {2, 2}, rawOf<int64_t>({0, 1, 1, 2}));
  sparse->add_dims(2);
  sparse->add_dims(3);
  ASSERT_TRUE(import(model)) << errors[0];
  EXPECT_TRUE(nodes("Constant").empty());
  std::vector<Type> types(main().getResultTypes().begin(), main().getResultTypes().end());
  Builder b(&context);
  EXPECT_EQ(types[1], RankedTensorType::get({}, b.getI64Type()));
  EXPECT_EQ(types[2], RankedTensorType::get({2}, b.getI64Type()));
  EXPECT_EQ(types[3], RankedTensorType::get({}, b.getF32Type()));
  EXPECT_EQ(types[5], RankedTensorType::get({}, onnx::UnsupportedType::get(&context, "string")));
  EXPECT_EQ(types[7], RankedTensorType::get({2, 3}, b.getF32Type()));
  EXPECT_EQ(bytesOf("tensor"), std::string(8000, 'x'));
  EXPECT_EQ(bytesOf("int"), rawOf<int64_t>({-5}));
  EXPECT_EQ(bytesOf("ints"), rawOf<int64_t>({1, 2}));
  EXPECT_EQ(bytesOf("float"), rawOf<float>({0.5f}));
  EXPECT_EQ(bytesOf("floats"), rawOf<float>({2}));
  EXPECT_EQ(bytesOf("sparse"), rawOf<float>({0, 7, 0, 0, 0, 8}));
}

TEST_F(ImportTest, BrokenConstantsAreErrors) {
  for (int what = 0; what < 5; ++what) {
    pb::ModelProto model = makeModel();
    pb::NodeProto *n = addNode(model, "c:Constant", {}, {"y"});
    if (what == 1)
      addAttribute(n, "value_int", pb::AttributeProto::FLOAT)->set_f(1);
    if (what == 2)
      addAttribute(n, "valve", pb::AttributeProto::INT)->set_i(1);
    if (what >= 3)
      addAttribute(n, "value_int", pb::AttributeProto::INT)->set_i(1);
    if (what == 3)
      addAttribute(n, "value_float", pb::AttributeProto::FLOAT)->set_f(1);
    if (what == 4)
      n->add_output("z");
    addOutput(model, "y");
    expectError(model, "[LLMC1070]");
    EXPECT_TRUE(hasError("'c' (Constant)"));
  }
}

class SparseTest : public ImportTest {
protected:
  pb::ModelProto sparse(std::vector<float> values, std::vector<int64_t> indices,
                        std::vector<int64_t> indexDims, std::vector<int64_t> dims) {
    pb::ModelProto model = makeModel();
    pb::SparseTensorProto *tensor = model.mutable_graph()->add_sparse_initializer();
    setTensor(tensor->mutable_values(), "w", P::FLOAT, {static_cast<int64_t>(values.size())},
              rawOf(values));
    setTensor(tensor->mutable_indices(), "", P::INT64, indexDims, rawOf(indices));
    for (int64_t dim : dims)
      tensor->add_dims(dim);
    addOutput(model, "w");
    return model;
  }
};

TEST_F(SparseTest, DenseBytesInAnyPieces) {
  std::vector<float> want(5 * 7), values;
  std::vector<int64_t> linear;
  for (int64_t at : {0, 1, 6, 7, 20, 34}) {
    linear.push_back(at);
    values.push_back(static_cast<float>(at + 100));
    want[at] = values.back();
  }
  ASSERT_TRUE(import(sparse(values, linear, {6}, {5, 7})));
  EXPECT_EQ(bytesOf("w"), rawOf(want));
  const Weight *weight = store->find("w");
  for (size_t step : {1, 3, 5, 16}) {
    std::string pieces(want.size() * 4, 'x');
    for (size_t at = 0; at < pieces.size(); at += step)
      weight->read(at, {pieces.data() + at, std::min(step, pieces.size() - at)});
    EXPECT_EQ(pieces, rawOf(want)) << step;
  }
  ASSERT_TRUE(import(sparse({}, {}, {0}, {5})));
  EXPECT_EQ(bytesOf("w"), std::string(20, 0));
}

TEST_F(SparseTest, HugeDenseShapeCostsNothing) {
  ASSERT_TRUE(import(sparse({1}, {int64_t(1) << 40}, {1}, {int64_t(1) << 41})));
  float value = 0;
  store->find("w")->read(uint64_t(1) << 42, {reinterpret_cast<char *>(&value), 4});
  EXPECT_EQ(value, 1);
}

TEST_F(SparseTest, BrokenOnesAreErrors) {
  expectError(sparse({1}, {5}, {1}, {5}), "[LLMC1055]"); // outside
  expectError(sparse({1}, {-1}, {1}, {5}), "[LLMC1055]");
  expectError(sparse({1, 2}, {3, 3}, {2}, {5}), "does not ascend");
  expectError(sparse({1, 2}, {3}, {1}, {5}), "[LLMC1055]"); // one index short
  expectError(sparse({1}, {0, 7}, {1, 2}, {5, 7}), "outside");
  expectError(sparse({1}, {0, 0}, {1, 2}, {5}), "do not have the shape");
  expectError(sparse({1}, {0}, {1}, {-5}), "[LLMC1055]");
}

} // namespace
} // namespace llmc::test
