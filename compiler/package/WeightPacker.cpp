// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Transposes rows into panels.
#include "compiler/package/WeightPacker.h"

#include <algorithm>
#include <cstring>

using namespace mlir;

namespace sluicec::package {

using namespace kernel;

/// Eight rows by one cache line, before they are transposed.
template <typename Bits> struct Block {
  static constexpr int64_t kRows = 8, kColumns = 64 / sizeof(Bits);
  Bits bits[kRows][kColumns];

  /// `from` is [.., stride]; `size` elements of each row. A constant size makes the copies moves.
  void load(const char *from, int64_t stride, int64_t numRows, int64_t size) {
    for (int64_t j = 0; j < numRows; ++j, from += stride * sizeof(Bits)) {
      std::memcpy(bits[j], from, static_cast<size_t>(size) * sizeof(Bits));
    }
  }
  /// `to` is [size, stride]; numRows elements of each.
  void storeTransposed(char *to, int64_t stride, int64_t numRows, int64_t size) const {
    for (int64_t k = 0; k < size; ++k, to += stride * sizeof(Bits)) {
      Bits line[kRows];
      for (int64_t j = 0; j < kRows; ++j) {
        line[j] = bits[j][k];
      }
      std::memcpy(to, line, static_cast<size_t>(numRows) * sizeof(Bits));
    }
  }
};

/// out[k - firstK, j] = rows[j, k] for j < width and k in [firstK, endK); Bits is an unsigned type
/// of the element's size. By blocks, since rows often lie a power of two apart and would push each
/// other out of the cache.
template <typename Bits>
static void transposePanel(const char *rows, char *out, int64_t width, int64_t columns,
                           std::pair<int64_t, int64_t> range) {
  using Tile = Block<Bits>;
  Tile tile = {};
  for (int64_t j = 0; j < width; j += Tile::kRows) {
    int64_t numRows = std::min(Tile::kRows, width - j);
    for (int64_t k = range.first; k < range.second; k += Tile::kColumns) {
      int64_t size = std::min(Tile::kColumns, range.second - k);
      const char *from = rows + (j * columns + k) * sizeof(Bits);
      char *to = out + ((k - range.first) * width + j) * sizeof(Bits);
      if (numRows == Tile::kRows && size == Tile::kColumns) {
        tile.load(from, columns, Tile::kRows, Tile::kColumns);
        tile.storeTransposed(to, width, Tile::kRows, Tile::kColumns);
      } else {
        tile.load(from, columns, numRows, size);
        tile.storeTransposed(to, width, numRows, size);
      }
    }
  }
}

WeightPacker::WeightPacker(const PackagedWeight &weight) : weight(weight) {
  RankedTensorType type = weight.type();
  columns = type.getRank() == 0 ? 1 : type.getShape().back();
  rows = type.getRank() < 2 ? 1 : type.getDimSize(type.getRank() - 2);
}

llvm::Error WeightPacker::pack(uint64_t begin, MutableArrayRef<char> out, ReadRows read) {
  assert(begin + out.size() <= weight.bytes && "packs only what the weight has");
  if (out.empty()) {
    return llvm::Error::success();
  }
  return weight.layout.getKind() == LayoutKind::Plain ? packPlain(begin, out, read)
                                                      : packPanels(begin, out, read);
}

llvm::Error WeightPacker::packPlain(uint64_t begin, MutableArrayRef<char> out, ReadRows read) {
  uint64_t rowBytes = static_cast<uint64_t>(columns) * weight.elementBytes;
  uint64_t end = begin + out.size();
  int64_t first = static_cast<int64_t>(begin / rowBytes);
  int64_t last = static_cast<int64_t>((end + rowBytes - 1) / rowBytes); // not included
  if (begin % rowBytes == 0 && end % rowBytes == 0) {
    return read(first, last - first, out);
  }
  slab.resize(static_cast<uint64_t>(last - first) * rowBytes);
  if (llvm::Error e = read(first, last - first, slab)) {
    return e;
  }
  std::memcpy(out.data(), slab.data() + begin % rowBytes, out.size());
  return llvm::Error::success();
}

int64_t WeightPacker::panelsPerMatrix() const {
  bool gated = weight.layout.getKind() == LayoutKind::GatedPanel;
  int64_t outputs = gated ? rows / 2 : rows;
  int64_t perPanel = gated ? weight.layout.getWidth() / 2 : weight.layout.getWidth();
  return (outputs + perPanel - 1) / perPanel;
}

llvm::Error WeightPacker::readPanel(int64_t index, ReadRows read) {
  bool gated = weight.layout.getKind() == LayoutKind::GatedPanel;
  int64_t matrix = index / panelsPerMatrix(), inMatrix = index % panelsPerMatrix();
  int64_t parts = gated ? 2 : 1; // gate and up
  int64_t outputs = rows / parts, perPart = weight.layout.getWidth() / parts;
  int64_t first = inMatrix * perPart, count = std::min(perPart, outputs - first);
  size_t rowBytes = static_cast<size_t>(columns) * weight.elementBytes;
  slab.resize(static_cast<size_t>(weight.layout.getWidth()) * rowBytes);
  if (count < perPart) {
    std::fill(slab.begin(), slab.end(), 0);
  }
  for (int64_t part = 0; part < parts; ++part) {
    MutableArrayRef<char> into(slab.data() + static_cast<size_t>(part * perPart) * rowBytes,
                               static_cast<size_t>(count) * rowBytes);
    if (llvm::Error e = read(matrix * rows + part * outputs + first, count, into)) {
      return e;
    }
  }
  return llvm::Error::success();
}

llvm::Error WeightPacker::packPanels(uint64_t begin, MutableArrayRef<char> out, ReadRows read) {
  int64_t width = weight.layout.getWidth();
  uint64_t stepBytes = static_cast<uint64_t>(width) * weight.elementBytes; // one k of a panel
  uint64_t panelBytes = stepBytes * static_cast<uint64_t>(columns);
  for (uint64_t at = begin, end = begin + out.size(); at < end;) {
    uint64_t index = at / panelBytes, panelBegin = index * panelBytes;
    uint64_t stop = std::min(end, panelBegin + panelBytes);
    if (llvm::Error e = readPanel(static_cast<int64_t>(index), read)) {
      return e;
    }
    // Whole steps that cover [at, stop) of this panel.
    std::pair<int64_t, int64_t> range{
        static_cast<int64_t>((at - panelBegin) / stepBytes),
        static_cast<int64_t>((stop - panelBegin + stepBytes - 1) / stepBytes)};
    uint64_t skipped = at - panelBegin - static_cast<uint64_t>(range.first) * stepBytes;
    uint64_t covered = static_cast<uint64_t>(range.second - range.first) * stepBytes;
    char *into = out.data() + (at - begin);
    if (covered != stop - at) { // a range that begins or ends inside a step
      panel.resize(covered);
      into = panel.data();
    }
    switch (weight.elementBytes) {
    case 1:
      transposePanel<uint8_t>(slab.data(), into, width, columns, range);
      break;
    case 2:
      transposePanel<uint16_t>(slab.data(), into, width, columns, range);
      break;
    case 4:
      transposePanel<uint32_t>(slab.data(), into, width, columns, range);
      break;
    default:
      transposePanel<uint64_t>(slab.data(), into, width, columns, range);
      break;
    }
    if (covered != stop - at) {
      std::memcpy(out.data() + (at - begin), panel.data() + skipped, stop - at);
    }
    at = stop;
  }
  return llvm::Error::success();
}

} // namespace sluicec::package
