// Tiles of int8 and int4 weights: from the canonical forms of formats/ to the layout of kernels.h
// and, for embeddings, back.
#pragma once

#include <cstdint>

#include "executor/cpu/kernels.h"
#include "formats/int4.h"
#include "formats/int8.h"

namespace erne::cpu {

// Up to kTilePanels panels that lie interleaved.
struct PanelTile {
  unsigned char* data = nullptr;
  int64_t panels = 0;
};

// Groups that the kernels take: `group` when int8 activations can have it, else the largest part of
// it that they can (its scales are then repeated).
int64_t KernelGroup(int64_t group);

// Writes the rows of `matrix` from `first_row` on as one tile of `ref`, whose groups divide those
// of the matrix.
void PackTile(const MatrixRef& ref, const Int8Matrix& matrix, int64_t first_row,
              const PanelTile& tile);
void PackTile(const MatrixRef& ref, const Int4Matrix& matrix, int64_t first_row,
              const PanelTile& tile);

// Output `lane` of panel `panel` of a tile as floats. out: [cols]
void UnpackLane(const MatrixRef& ref, const PanelTile& tile, int64_t panel, int64_t lane,
                float* out);

}  // namespace erne::cpu
