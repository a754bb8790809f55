// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Transposes rows into panels.
#include "compiler/package/WeightPacker.h"

#include <algorithm>
#include <cstring>

using namespace mlir;

namespace sluicec::package {

using namespace kernel;

/// out[k - firstK, j] = rows[j, k] for j < width and k in [firstK, endK); Bits is an unsigned type
/// of the element's size. In blocks of one cache line by eight rows, so that rows at a distance of
/// a power of two do not push each other out of the cache.
template <typename Bits>
static void transposePanel(const char *rows, char *out, int64_t width, int64_t columns,
                           std::pair<int64_t, int64_t> range) {
  constexpr int64_t kRowBlock = 8, kColumnBlock = 64 / sizeof(Bits);
  for (int64_t j0 = 0; j0 < width; j0 += kRowBlock) {
    int64_t j1 = std::min(width, j0 + kRowBlock);
    for (int64_t k0 = range.first; k0 < range.second; k0 += kColumnBlock) {
      int64_t k1 = std::min(range.second, k0 + kColumnBlock);
      for (int64_t k = k0; k < k1; ++k) {
        for (int64_t j = j0; j < j1; ++j) {
          std::memcpy(out + ((k - range.first) * width + j) * sizeof(Bits),
                      rows + (j * columns + k) * sizeof(Bits), sizeof(Bits));
        }
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
  slab.assign(static_cast<size_t>(weight.layout.getWidth()) * rowBytes, 0);
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
    panel.resize(static_cast<size_t>(range.second - range.first) * stepBytes);
    switch (weight.elementBytes) {
    case 1:
      transposePanel<uint8_t>(slab.data(), panel.data(), width, columns, range);
      break;
    case 2:
      transposePanel<uint16_t>(slab.data(), panel.data(), width, columns, range);
      break;
    case 4:
      transposePanel<uint32_t>(slab.data(), panel.data(), width, columns, range);
      break;
    default:
      transposePanel<uint64_t>(slab.data(), panel.data(), width, columns, range);
      break;
    }
    uint64_t skipped = at - panelBegin - static_cast<uint64_t>(range.first) * stepBytes;
    std::memcpy(out.data() + (at - begin), panel.data() + skipped, stop - at);
    at = stop;
  }
  return llvm::Error::success();
}

} // namespace sluicec::package
