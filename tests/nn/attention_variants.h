// Every attention variant as a function of q, k, v and one number a head, so that one test reads
// the same for all.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "nn/attention/conformal.h"
#include "nn/attention/linear.h"
#include "nn/attention/performer.h"
#include "nn/attention/softmax_naive.h"
#include "nn/attention/sparse.h"
#include "nn/attention/w2.h"

namespace mobius::testing {

struct Variant {
  using Attend = std::function<Variable(const Variable& q, const Variable& k, const Variable& v,
                                        const Variable& alpha, const AttentionMask& mask)>;
  using Weights = std::function<Variable(const Variable& q, const Variable& k,
                                         const Variable& alpha, const AttentionMask& mask)>;

  std::string name;
  Attend attend;
  Weights weights;
  bool takes_any_mask = true;  // else: causal or none
  bool sees_distance = false;  // positions change the weights
  bool overflows = false;      // on purpose
};

inline void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

inline std::string name_of(const ::testing::TestParamInfo<Variant>& info) {
  return info.param.name;
}

// Variants of conformal attention take alpha as it is.
inline void add_conformal(std::vector<Variant>& all) {
  const std::vector<std::pair<std::string, ConformalWeight>> weights = {
      {"newton", ConformalWeight::newton},
      {"poisson", ConformalWeight::poisson},
      {"jacobian", ConformalWeight::jacobian},
      {"custom", ConformalWeight::custom}};
  const std::vector<std::pair<std::string, ConformalNormalize>> normalizes = {
      {"none", ConformalNormalize::none},
      {"analytic", ConformalNormalize::analytic},
      {"empirical", ConformalNormalize::empirical}};
  for (const auto& [weight_name, weight] : weights)
    for (const auto& [normalize_name, normalize] : normalizes) {
      const auto kernel_for = [weight = weight](std::int64_t d) {
        return weight == ConformalWeight::custom ? conformal_kernel(weight, d, 1.7, 0.3)
                                                 : conformal_kernel(weight, d);
      };
      all.push_back(
          {weight_name + "_" + normalize_name,
           [=, normalize = normalize](const Variable& q, const Variable& k, const Variable& v,
                                      const Variable& alpha, const AttentionMask& mask) {
             return conformal_attention(q, k, v, alpha, kernel_for(q.size(-1)), normalize, mask);
           },
           [=, normalize = normalize](const Variable& q, const Variable& k, const Variable& alpha,
                                      const AttentionMask& mask) {
             const ConformalKernel kernel = kernel_for(q.size(-1));
             return conformal_weights(embed_in_ball(q, k, alpha, kernel.s), kernel, normalize,
                                      mask);
           }});
    }
}

// softmax and its relatives have no alpha: it scales q.
inline void add_softmax(std::vector<Variant>& all) {
  const auto alibi = [](const Variable& q, const Variable& k) {
    return AttentionExtras{.distance_bias = Variable(
                               alibi_bias(q.size(1), q.size(2), k.size(2), q.dtype(), q.device()))};
  };
  all.push_back({"softmax",
                 [](const auto& q, const auto& k, const auto& v, const auto& alpha,
                    const auto& mask) { return softmax_attention(q * alpha, k, v, mask); },
                 [](const auto& q, const auto& k, const auto& alpha, const auto& mask) {
                   return softmax_weights(q * alpha, k, mask);
                 }});
  all.push_back(
      {"softmax_alibi",
       [=](const auto& q, const auto& k, const auto& v, const auto& alpha, const auto& mask) {
         return softmax_attention(q * alpha, k, v, mask, {}, alibi(q, k));
       },
       [=](const auto& q, const auto& k, const auto& alpha, const auto& mask) {
         return softmax_weights(q * alpha, k, mask, {}, alibi(q, k));
       }});
  all.back().sees_distance = true;
  all.push_back({"softmax_naive",
                 [](const auto& q, const auto& k, const auto& v, const auto& alpha,
                    const auto& mask) { return softmax_naive_attention(q * alpha, k, v, mask); },
                 [](const auto& q, const auto& k, const auto& alpha, const auto& mask) {
                   return softmax_naive_weights(q * alpha, k, mask);
                 }});
  all.back().overflows = true;
}

inline void add_sparse(std::vector<Variant>& all) {
  const std::vector<std::pair<std::string, SparseSelection>> selections = {
      {"local", {.pattern = SparsePattern::local, .window = 3}},
      {"strided", {.pattern = SparsePattern::strided, .window = 2, .stride = 3}},
      {"topk", {.pattern = SparsePattern::topk, .topk = 2}}};
  for (const auto& [name, selection] : selections) {
    all.push_back({"sparse_" + name,
                   [selection = selection](const auto& q, const auto& k, const auto& v,
                                           const auto& alpha, const auto& mask) {
                     return sparse_attention(q * alpha, k, v, selection, mask);
                   },
                   [selection = selection](const auto& q, const auto& k, const auto& alpha,
                                           const auto& mask) {
                     return sparse_weights(q * alpha, k, selection, mask);
                   }});
    all.back().sees_distance = selection.pattern != SparsePattern::topk;
  }
}

// Linear in the sequence.
inline void add_linear(std::vector<Variant>& all) {
  const auto omega_for = [](const Variable& q) {
    return orthogonal_gaussian(32, q.size(-1), {.seed = 3, .stream = 4}, q.dtype());
  };
  all.push_back({"linear",
                 [](const auto& q, const auto& k, const auto& v, const auto& alpha,
                    const auto& mask) { return elu_linear_attention(q * alpha, k, v, mask); },
                 [](const auto& q, const auto& k, const auto& alpha, const auto& mask) {
                   return elu_linear_weights(q * alpha, k, mask);
                 }});
  all.back().takes_any_mask = false;
  all.push_back(
      {"performer",
       [=](const auto& q, const auto& k, const auto& v, const auto& alpha, const auto& mask) {
         return performer_attention(q * alpha, k, v, omega_for(q), mask);
       },
       [=](const auto& q, const auto& k, const auto& alpha, const auto& mask) {
         return performer_weights(q * alpha, k, omega_for(q), mask);
       }});
  all.back().takes_any_mask = false;
}

// Gaussians of mean x and a raw deviation of x. alpha is part of tau.
inline void add_w2(std::vector<Variant>& all) {
  const auto gaussians = [](const Variable& x) { return concat({x, x}, -1); };
  const auto tau_of = [](const Variable& k, const Variable& alpha) {
    return affine(slice(alpha, 0, 0, k.size(1)), 2, 1);
  };
  all.push_back(
      {"w2",
       [=](const auto& q, const auto& k, const auto& v, const auto& alpha, const auto& mask) {
         return w2_attention(gaussians(q), gaussians(k), v, tau_of(k, alpha), mask);
       },
       [=](const auto& q, const auto& k, const auto& alpha, const auto& mask) {
         return w2_weights(gaussians(q), gaussians(k), tau_of(k, alpha), mask);
       }});
  all.push_back(
      {"w2_overlap",
       [=](const auto& q, const auto& k, const auto& v, const auto& alpha, const auto& mask) {
         return w2_overlap_attention(gaussians(q * alpha), gaussians(k), v, mask);
       },
       [=](const auto& q, const auto& k, const auto& alpha, const auto& mask) {
         return w2_overlap_weights(gaussians(q * alpha), gaussians(k), mask);
       }});
}

inline std::vector<Variant> variants() {
  std::vector<Variant> all;
  add_softmax(all);
  add_conformal(all);
  add_sparse(all);
  add_linear(all);
  add_w2(all);
  return all;
}

}  // namespace mobius::testing
