#include "train/studies/decoding.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "nn/attention/conformal/conformal.h"
#include "nn/attention/conformal/conformal_hierarchical.h"
#include "nn/attention/conformal/degree_basis.h"
#include "nn/attention/linear.h"
#include "nn/attention/softmax.h"

namespace mobius {

namespace {

constexpr double decoding_alpha = 6;
constexpr ConformalNormalize decoding_normalize = ConformalNormalize::analytic;

ConformalKernel decoding_kernel(const DecodingSizes& sizes) {
  return conformal_kernel(ConformalWeight::newton, sizes.head_dim);
}

// What the projections of a new token would give.
class OneToken : public Decoder {
 public:
  OneToken(const DecodingSizes& sizes, std::uint64_t seed)
      : token_{.q = drawn(sizes, seed, "q"),
               .k = drawn(sizes, seed, "k"),
               .v = drawn(sizes, seed, "v"),
               .mask = {.causal = true}},
        kernel_(decoding_kernel(sizes)),
        alpha_(Tensor::full({sizes.n_heads, 1, 1}, decoding_alpha)) {}

 protected:
  const HeadInputs& token() const { return token_; }
  const ConformalKernel& kernel() const { return kernel_; }
  BallPoints points() const { return embed_in_ball(token_.q, token_.k, alpha_, kernel_.s); }

 private:
  static Variable drawn(const DecodingSizes& sizes, std::uint64_t seed, std::string_view what) {
    return Variable(
        random_normal({1, sizes.n_heads, 1, sizes.head_dim}, 0, 1, {seed, stream_id(what)}));
  }

  HeadInputs token_;
  ConformalKernel kernel_;
  Variable alpha_;
};

class TreeDecoder final : public OneToken {
 public:
  TreeDecoder(const DecodingSizes& sizes, std::int64_t n, std::uint64_t seed)
      : OneToken(sizes, seed),
        cache_(far_field_of(sizes), {.window = sizes.window, .block = sizes.block, .history = 0}) {
    for_random_keys(sizes, n, seed, [&](const Tensor& k, const Tensor& v) {
      cache_.append(Variable(polar(k).direction), Variable(v));
    });
  }
  Tensor decode() override {
    return read_on(cache_, points(), token().v, kernel(), decoding_normalize).data();
  }
  std::size_t bytes() const override { return cache_.tree().bytes(); }
  std::int64_t period() const override { return cache_.tree().options().block; }

 private:
  ConformalTreeCache cache_;
};

// All keys and values, the last of which are those of the new token.
class CacheDecoder final : public OneToken {
 public:
  CacheDecoder(const DecodingSizes& sizes, std::int64_t n, std::uint64_t seed, bool is_conformal,
               bool is_fused)
      : OneToken(sizes, seed),
        keys_(Tensor::empty({1, sizes.n_heads, n + 1, sizes.head_dim})),
        values_(keys_.empty_like()),
        is_conformal_(is_conformal),
        is_fused_(is_fused) {
    std::int64_t begin = 0;
    for_random_keys(sizes, n, seed, [&](const Tensor& k, const Tensor& v) {
      const std::int64_t end = begin + k.size(2);
      keys_.slice(2, begin, end).copy_from(is_conformal ? polar(k).direction : k);
      values_.slice(2, begin, end).copy_from(v);
      begin = end;
    });
  }

  Tensor decode() override {
    const std::int64_t n = keys_.size(2) - 1;
    values_.slice(2, n, n + 1).copy_from(token().v.data());
    HeadInputs in = token();
    in.v = Variable(values_);
    if (is_conformal_) {
      BallPoints points = this->points();
      keys_.slice(2, n, n + 1).copy_from(points.zeta.data());
      points.zeta = Variable(keys_);
      const Tensor count = Tensor::full({1}, static_cast<double>(n + 1));
      const AttentionCall call = conformal_call(in, points, count, kernel(), decoding_normalize);
      return is_fused_ ? attention(call).data()
                       : apply_weights(attention_weights(call), in.v).data();
    }
    keys_.slice(2, n, n + 1).copy_from(token().k.data());
    in.k = Variable(keys_);
    return is_fused_ ? attention(softmax_call(in)).data() : plain_softmax(in).data();
  }
  std::size_t bytes() const override { return keys_.bytes() + values_.bytes(); }

 private:
  static Variable plain_softmax(const HeadInputs& in) {
    const double scale = 1 / std::sqrt(static_cast<double>(in.q.size(3)));
    const Variable products = matmul(in.q, transpose(in.k, -1, -2));
    return matmul(masked_softmax(products, scale, {}), in.v);
  }

  Tensor keys_, values_;
  bool is_conformal_, is_fused_;
};

// Its state has the same size after any number of tokens, so that it reads only the first ones.
class RecurrentDecoder final : public OneToken {
 public:
  RecurrentDecoder(const DecodingSizes& sizes, std::int64_t n, std::uint64_t seed)
      : OneToken(sizes, seed) {
    constexpr std::int64_t most = 256;
    for_random_keys(sizes, std::min(n, most), seed, [&](const Tensor& k, const Tensor& v) {
      read({.q = Variable(k), .k = Variable(k), .v = Variable(v), .mask = {.causal = true}});
    });
  }
  Tensor decode() override { return read(token()); }
  std::size_t bytes() const override { return cache_.bytes(); }

 private:
  Tensor read(const HeadInputs& in) {
    const FeatureCall call = linear_call(in);
    return cache_.attend(call.q, call.k, call.v, call.eps).data();
  }

  MomentCache cache_;
};

}  // namespace

std::string name_of(DecodingKind kind) {
  switch (kind) {
    case DecodingKind::tree:
      return "tree";
    case DecodingKind::conformal:
      return "conformal";
    case DecodingKind::conformal_fused:
      return "conformal_fused";
    case DecodingKind::softmax:
      return "softmax";
    case DecodingKind::softmax_fused:
      return "softmax_fused";
    case DecodingKind::recurrent:
      return "recurrent";
  }
  throw Error("decoding: no such kind");
}

std::vector<DecodingKind> all_decoding_kinds() {
  return {DecodingKind::tree,    DecodingKind::conformal,     DecodingKind::conformal_fused,
          DecodingKind::softmax, DecodingKind::softmax_fused, DecodingKind::recurrent};
}

std::unique_ptr<Decoder> make_decoder(DecodingKind kind, const DecodingSizes& sizes, std::int64_t n,
                                      std::uint64_t seed) {
  if (n < 1) throw Error("decoding: expected a context of at least 1 key, got {}", n);
  const bool is_fused =
      kind == DecodingKind::conformal_fused || kind == DecodingKind::softmax_fused;
  if (kind == DecodingKind::tree) return std::make_unique<TreeDecoder>(sizes, n, seed);
  if (kind == DecodingKind::recurrent) return std::make_unique<RecurrentDecoder>(sizes, n, seed);
  const bool is_conformal =
      kind == DecodingKind::conformal || kind == DecodingKind::conformal_fused;
  return std::make_unique<CacheDecoder>(sizes, n, seed, is_conformal, is_fused);
}

std::shared_ptr<const FarField> far_field_of(const DecodingSizes& sizes) {
  return std::make_shared<DegreeBasis>(decoding_kernel(sizes), sizes.degree);
}

void for_random_keys(const DecodingSizes& sizes, std::int64_t n, std::uint64_t seed,
                     const std::function<void(const Tensor& k, const Tensor& v)>& read) {
  constexpr std::int64_t piece = 1 << 14;
  for (std::int64_t begin = 0; begin < n; begin += piece) {
    const Shape shape{1, sizes.n_heads, std::min(piece, n - begin), sizes.head_dim};
    const auto which = static_cast<std::uint64_t>(begin);
    read(random_normal(shape, 0, 1, {seed, stream_id("keys", which)}),
         random_normal(shape, 0, 1, {seed, stream_id("values", which)}));
  }
}

std::vector<double> times_of(const std::function<void()>& call, double seconds, std::size_t least) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> microseconds;
  const auto start = Clock::now();
  for (auto before = start; microseconds.size() < least ||
                            std::chrono::duration<double>(before - start).count() < seconds;) {
    call();
    const auto after = Clock::now();
    microseconds.push_back(std::chrono::duration<double, std::micro>(after - before).count());
    before = after;
  }
  std::sort(microseconds.begin(), microseconds.end());
  return microseconds;
}

DecodingCost cost_of(DecodingKind kind, const DecodingSizes& sizes, std::int64_t n,
                     std::uint64_t seed, double seconds) {
  const std::unique_ptr<Decoder> decoder = make_decoder(kind, sizes, n, seed);
  const std::int64_t period = decoder->period();
  const auto decode_period = [&] {
    for (std::int64_t i = 0; i < period; ++i) decoder->decode();
  };
  times_of(decode_period, seconds / 4, 2);  // warms up
  const std::vector<double> times = times_of(decode_period, seconds, 5);
  const auto of_token = [&](double of_period) { return of_period / static_cast<double>(period); };
  return {.microseconds = of_token(median_of(times)),
          .least_microseconds = of_token(times.front()),
          .bytes = decoder->bytes()};
}

}  // namespace mobius
