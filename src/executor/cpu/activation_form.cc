#include "executor/cpu/activation_form.h"

#include "executor/cpu/memory.h"

namespace erne::cpu {
namespace {

bool HasSums(const MatrixRef& m) {
  return m.type == WeightType::kInt4 || m.activation == ActivationType::kInt8;
}

}  // namespace

Activations FormOf(const MatrixRef& matrix, bool bf16_products) {
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  Activations form;
  int64_t end = matrix.cols * kFloat;
  if (matrix.activation == ActivationType::kBF16) {
    end = RoundUp(matrix.cols, 2) * (bf16_products ? 2 : kFloat);
  } else if (matrix.activation == ActivationType::kInt8) {
    end = matrix.groups * matrix.group_inputs;
    form.scales = end;
    end += matrix.groups * kFloat;
  }
  form.sums = end;
  if (HasSums(matrix)) end += matrix.groups * kFloat;
  form.stride = RoundUp(end, kLineBytes);
  return form;
}

bool NeedsPreparing(const MatrixRef& matrix) {
  return matrix.activation != ActivationType::kF32 || matrix.columns != nullptr || HasSums(matrix);
}

bool SameActivations(const MatrixRef& a, const MatrixRef& b) {
  return a.activation == b.activation && a.cols == b.cols && a.columns == b.columns &&
         HasSums(a) == HasSums(b) && (!HasSums(a) || a.group == b.group);
}

}  // namespace erne::cpu
