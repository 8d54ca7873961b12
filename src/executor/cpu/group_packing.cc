#include "executor/cpu/group_packing.h"

#include <algorithm>
#include <cstring>

namespace erne::cpu {
namespace {

// One output of a tile.
struct Lane {
  const MatrixRef& ref;
  const PanelTile& tile;
  int64_t panel;
  int64_t lane;

  // The 4 bytes in line `line` of group `g`.
  unsigned char* Word(int64_t g, int64_t line) const {
    return Group(g) + (line * tile.panels + panel) * kLineBytes + lane * 4;
  }
  float& Scale(int64_t g) const {
    auto* scales = reinterpret_cast<float*>(Group(g) + tile.panels * ref.group_bytes);
    return scales[panel * kLanes + lane];
  }
  unsigned char& Zero(int64_t g) const {
    return Group(g)[tile.panels * (ref.group_bytes + kLineBytes) + panel * kLanes + lane];
  }

 private:
  unsigned char* Group(int64_t g) const { return tile.data + g * tile.panels * ref.group_stride; }
};

// Zeroes the tile and calls body(row of the matrix, lane) for those of its outputs that exist.
template <typename Body>
void ForEachLane(const MatrixRef& ref, int64_t rows, int64_t first_row, const PanelTile& tile,
                 const Body& body) {
  std::memset(tile.data, 0, static_cast<size_t>(tile.panels * ref.panel_bytes));
  const int64_t count = std::min(tile.panels * kLanes, rows - first_row);
  for (int64_t i = 0; i < count; ++i) body(first_row + i, Lane{ref, tile, i / kLanes, i % kLanes});
}

}  // namespace

int64_t KernelGroup(int64_t group) {
  for (int64_t pieces = 1;; ++pieces) {
    if (group % pieces == 0 && group / pieces <= kMaxInt8Group) return group / pieces;
  }
}

void PackTile(const MatrixRef& ref, const Int8Matrix& matrix, int64_t first_row,
              const PanelTile& tile) {
  ForEachLane(ref, matrix.rows, first_row, tile, [&](int64_t row, const Lane& lane) {
    const int8_t* q = matrix.q.data() + row * matrix.cols;
    for (int64_t g = 0; g < ref.groups; ++g) {
      const int64_t begin = g * ref.group;
      const int64_t length = std::min(ref.group, ref.cols - begin);
      lane.Scale(g) =
          matrix.scales[static_cast<size_t>(row * matrix.groups() + begin / matrix.group)];
      for (int64_t i = 0; i < length; ++i)
        lane.Word(g, i / 4)[i % 4] = static_cast<unsigned char>(128 + q[begin + i]);
    }
  });
}

void PackTile(const MatrixRef& ref, const Int4Matrix& matrix, int64_t first_row,
              const PanelTile& tile) {
  ForEachLane(ref, matrix.rows, first_row, tile, [&](int64_t row, const Lane& lane) {
    const uint8_t* q = matrix.q.data() + row * (matrix.cols / 2);
    for (int64_t g = 0; g < ref.groups; ++g) {
      const int64_t begin = g * ref.group;
      const auto source =
          static_cast<size_t>(row * (matrix.cols / matrix.group) + begin / matrix.group);
      lane.Scale(g) = matrix.scales[source];
      lane.Zero(g) = static_cast<unsigned char>(8 - matrix.zeros[source]);
      for (int64_t i = 0; i < ref.group; ++i) {
        const int nibble = q[(begin + i) / 2] >> ((begin + i) % 2 * 4) & 15;
        lane.Word(g, i / 8)[i % 4] |= static_cast<unsigned char>(nibble << (i % 8 / 4 * 4));
      }
    }
  });
}

void UnpackLane(const MatrixRef& ref, const PanelTile& tile, int64_t panel, int64_t lane_index,
                float* out) {
  const Lane lane = {ref, tile, panel, lane_index};
  for (int64_t c = 0; c < ref.cols; ++c) {
    const int64_t g = c / ref.group;
    const int64_t i = c % ref.group;
    int value = 0;
    if (ref.type == WeightType::kInt8) {
      value = lane.Word(g, i / 4)[i % 4] - 128;
    } else {
      const int q = lane.Word(g, i / 8)[i % 4] >> (i % 8 / 4 * 4) & 15;
      value = q - 8 + static_cast<signed char>(lane.Zero(g));
    }
    out[c] = static_cast<float>(value) * lane.Scale(g);
  }
}

}  // namespace erne::cpu
