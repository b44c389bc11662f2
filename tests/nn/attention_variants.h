// Every attention variant as a function of q, k, v and one number a head, so that one test reads
// the same for all.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "nn/attention/conformal/conformal.h"
#include "nn/attention/linear.h"
#include "nn/attention/performer.h"
#include "nn/attention/softmax_naive.h"
#include "nn/attention/w2.h"
#include "tests/device.h"
#include "tests/nn/sparse_reference.h"

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

// A variant by its call, a function of HeadInputs and alpha.
template <class Call>
Variant by_call(std::string name, const Call& call) {
  return {std::move(name),
          [call](const auto& q, const auto& k, const auto& v, const auto& alpha, const auto& mask) {
            return attention(call(HeadInputs{.q = q, .k = k, .v = v, .mask = mask}, alpha));
          },
          [call](const auto& q, const auto& k, const auto& alpha, const auto& mask) {
            return attention_weights(call(HeadInputs{.q = q, .k = k, .mask = mask}, alpha));
          }};
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
          by_call(weight_name + "_" + normalize_name,
                  [=, normalize = normalize](const HeadInputs& in, const Variable& alpha) {
                    return conformal_call(in, alpha, kernel_for(in.q.size(-1)), normalize);
                  }));
    }
}

// softmax and its relatives have no alpha: it scales q.
inline HeadInputs sharpened(HeadInputs in, const Variable& alpha) {
  in.q = in.q * alpha;
  return in;
}

inline void add_softmax(std::vector<Variant>& all) {
  all.push_back(by_call("softmax", [](const HeadInputs& in, const Variable& alpha) {
    return softmax_call(sharpened(in, alpha));
  }));
  all.push_back(by_call("softmax_alibi", [](const HeadInputs& in, const Variable& alpha) {
    HeadInputs biased = sharpened(in, alpha);
    const std::int64_t n_heads = in.q.size(1);
    const Tensor slopes = placed::from(alibi_slopes(n_heads), {n_heads, 1}).to(in.q.dtype());
    biased.extras.distance_bias = Variable(alibi_bias(slopes, in.q.size(2), in.k.size(2)));
    return softmax_call(biased);
  }));
  all.back().sees_distance = true;
  all.push_back(
      {"softmax_naive",
       [](const auto& q, const auto& k, const auto& v, const auto& alpha, const auto& mask) {
         const HeadInputs in{.q = q * alpha, .k = k, .v = v, .mask = mask};
         return apply_weights(softmax_naive_weights(in), in);
       },
       [](const auto& q, const auto& k, const auto& alpha, const auto& mask) {
         return softmax_naive_weights({.q = q * alpha, .k = k, .mask = mask});
       }});
  all.back().overflows = true;
}

inline void add_sparse(std::vector<Variant>& all) {
  const std::vector<std::pair<std::string, SparseSelection>> selections = {
      {"local", {.pattern = SparsePattern::local, .window = 3}},
      {"strided", {.pattern = SparsePattern::strided, .window = 2, .stride = 3}},
      {"topk", {.pattern = SparsePattern::topk, .topk = 2}}};
  for (const auto& [name, selection] : selections) {
    all.push_back(by_call("sparse_" + name,
                          [selection = selection](const HeadInputs& in, const Variable& alpha) {
                            return sparse_call(sharpened(in, alpha), selection);
                          }));
    all.back().weights = [selection = selection](const auto& q, const auto& k, const auto& alpha,
                                                 const auto& mask) {
      return sparse_weights({.q = q * alpha, .k = k, .mask = mask}, selection);
    };
    all.back().sees_distance = selection.pattern != SparsePattern::topk;
  }
}

// Linear in the sequence.
inline void add_linear(std::vector<Variant>& all) {
  all.push_back(by_call("linear", [](const HeadInputs& in, const Variable& alpha) {
    return linear_call(sharpened(in, alpha));
  }));
  all.back().takes_any_mask = false;
  all.push_back(by_call("performer", [](const HeadInputs& in, const Variable& alpha) {
    const Tensor omega = orthogonal_gaussian(32, in.q.size(-1), {.seed = 3, .stream = 4},
                                             in.q.dtype(), in.q.device());
    return performer_call(sharpened(in, alpha), omega);
  }));
  all.back().takes_any_mask = false;
}

// Gaussians of mean x and a raw deviation of x. alpha is part of tau.
inline void add_w2(std::vector<Variant>& all) {
  const auto gaussians = [](HeadInputs in) {
    in.q = concat({in.q, in.q}, -1);
    in.k = concat({in.k, in.k}, -1);
    return in;
  };
  all.push_back(by_call("w2", [=](const HeadInputs& in, const Variable& alpha) {
    return w2_call(gaussians(in), affine(slice(alpha, 0, 0, in.k.size(1)), 2, 1));
  }));
  all.push_back(by_call("w2_overlap", [=](const HeadInputs& in, const Variable& alpha) {
    return w2_overlap_call(gaussians(sharpened(in, alpha)));
  }));
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
