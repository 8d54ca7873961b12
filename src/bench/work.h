// What a step of a model has to read and to compute, whatever computes it: the numbers that turn a
// speed into a share of the roof.
#pragma once

#include <array>
#include <cstdint>

#include "bench/roof.h"
#include "executor/executor.h"
#include "kv/kv_dtype.h"
#include "model/model.h"

namespace erne::bench {

// The rows of a step, all sequences together.
struct StepRows {
  double rows = 1;  // tokens
  double logit_rows = 1;
  double attended = 0;  // (row, position) pairs: a row at position p attends to p + 1
  double kv_read = 0;   // positions whose keys and values are read: once for rows side by side
};

class ModelWork {
 public:
  // Of the weights as the model has them; `kv_dtype`: of keys and values.
  ModelWork(const Model& model, KvDType kv_dtype);

  // Bytes read by a step: weights once, however many rows; of the experts, those that so many rows
  // are expected to be sent to when routers choose evenly; keys and values.
  double Bytes(const StepRows& step) const;
  // Multiply-adds, counted as two.
  double Operations(const StepRows& step) const;
  // The same of one stage.
  double Bytes(StepProfile::Stage stage, const StepRows& step) const;
  double Operations(StepProfile::Stage stage, const StepRows& step) const;

  double kv_bytes() const { return kv_bytes_; }  // of a position

 private:
  // A product, all layers together.
  struct Product {
    double bytes = 0;         // that every step reads
    double expert_bytes = 0;  // of one expert in each layer that has any
    double operations = 0;    // of a row
  };
  void AddMlp(const MlpWeights& mlp);
  void AddMoe(const MoeWeights& moe);

  std::array<Product, StepProfile::kStages> products_ = {};
  double experts_ = 0;
  double top_k_ = 0;
  double pair_operations_ = 0;  // of a (row, position) pair
  double kv_bytes_ = 0;
};

// The instruction that weights of this model can be multiplied with best: which peak is its roof.
struct ArithmeticRoof {
  const char* name = "";  // "bf16"
  double Roof::* peak = nullptr;
};
ArithmeticRoof ArithmeticRoofOf(const Model& model);

}  // namespace erne::bench
