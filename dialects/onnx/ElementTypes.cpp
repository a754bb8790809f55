// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of ONNX element types.
#include "dialects/onnx/ElementTypes.h"

#include "dialects/onnx/OnnxDialect.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace sluicec::onnx;

namespace {
Type signless(MLIRContext *context, unsigned width) { return IntegerType::get(context, width); }
template <unsigned width> Type makeInt(MLIRContext *context) { return signless(context, width); }
template <unsigned width> Type makeUnsigned(MLIRContext *context) {
  return IntegerType::get(context, width, IntegerType::Unsigned);
}
template <typename T> Type make(MLIRContext *context) { return T::get(context); }
template <typename T> Type makeComplex(MLIRContext *context) {
  return ComplexType::get(T::get(context));
}

struct ElementTypeRow {
  int64_t number; // TensorProto.DataType
  llvm::StringLiteral name;
  unsigned bits; // of one element in raw_data; 0: not stored so
  Type (*make)(MLIRContext *context);
};
const ElementTypeRow kRows[] = {
    {1, "FLOAT", 32, make<Float32Type>},
    {2, "UINT8", 8, makeUnsigned<8>},
    {3, "INT8", 8, makeInt<8>},
    {4, "UINT16", 16, makeUnsigned<16>},
    {5, "INT16", 16, makeInt<16>},
    {6, "INT32", 32, makeInt<32>},
    {7, "INT64", 64, makeInt<64>},
    {8, "STRING", 0, make<StringType>},
    {9, "BOOL", 8, makeInt<1>},
    {10, "FLOAT16", 16, make<Float16Type>},
    {11, "DOUBLE", 64, make<Float64Type>},
    {12, "UINT32", 32, makeUnsigned<32>},
    {13, "UINT64", 64, makeUnsigned<64>},
    {14, "COMPLEX64", 64, makeComplex<Float32Type>},
    {15, "COMPLEX128", 128, makeComplex<Float64Type>},
    {16, "BFLOAT16", 16, make<BFloat16Type>},
    {17, "FLOAT8E4M3FN", 8, make<Float8E4M3FNType>},
    {18, "FLOAT8E4M3FNUZ", 8, make<Float8E4M3FNUZType>},
    {19, "FLOAT8E5M2", 8, make<Float8E5M2Type>},
    {20, "FLOAT8E5M2FNUZ", 8, make<Float8E5M2FNUZType>},
    {21, "UINT4", 4, makeUnsigned<4>},
    {22, "INT4", 4, makeInt<4>},
    {23, "FLOAT4E2M1", 4, make<Float4E2M1FNType>},
    {24, "FLOAT8E8M0", 8, make<Float8E8M0FNUType>},
    {25, "UINT2", 2, makeUnsigned<2>},
    {26, "INT2", 2, makeInt<2>},
};

const ElementTypeRow *findRow(int64_t number) {
  const ElementTypeRow *row =
      llvm::find_if(kRows, [&](const ElementTypeRow &r) { return r.number == number; });
  return row == std::end(kRows) ? nullptr : row;
}
} // namespace

Type sluicec::onnx::elementTypeFromNumber(MLIRContext *context, int64_t number) {
  const ElementTypeRow *row = findRow(number);
  return row ? row->make(context) : Type();
}

int64_t sluicec::onnx::numberFromElementType(Type type) {
  for (const ElementTypeRow &row : kRows) {
    if (type && row.make(type.getContext()) == type) {
      return row.number;
    }
  }
  return 0;
}

llvm::StringRef sluicec::onnx::elementTypeName(int64_t number) {
  const ElementTypeRow *row = findRow(number);
  return row ? llvm::StringRef(row->name) : llvm::StringRef();
}

std::string sluicec::onnx::elementTypeText(Type type) {
  if (!type) {
    return "unknown";
  }
  if (isa<StringType>(type)) {
    return "string";
  }
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

unsigned sluicec::onnx::storageBits(Type type) {
  const ElementTypeRow *row = findRow(numberFromElementType(type));
  return row ? row->bits : 0;
}
