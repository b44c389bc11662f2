#include "data/mqar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/options/schema.h"
#include "core/options/validate.h"
#include "core/rng.h"
#include "data/mixture.h"
#include "data/sampling.h"

namespace mobius {
namespace {

using Tokens = std::span<std::int32_t>;

std::vector<MqarSize> sizes_of(const MqarOptions& options) {
  if (!options.mixture.empty()) return options.mixture;
  return {{options.seq_len, options.n_pairs, 1}};
}

std::int64_t longest(const std::vector<MqarSize>& sizes) {
  std::int64_t seq_len = 0;
  for (const MqarSize& size : sizes) seq_len = std::max(seq_len, size.seq_len);
  return seq_len;
}

// Returns (g + 1)^(a - 1) for every gap g, scaled to make the largest weight 2^32. Rounding to
// integers is far coarser than the differences of pow() between machines, so draws do not differ.
std::vector<std::uint64_t> gap_weights(const MqarSize& size, double power_a) {
  std::vector<double> powers(static_cast<std::size_t>((size.seq_len - 2 * size.n_pairs) / 2));
  for (std::size_t g = 0; g < powers.size(); ++g)
    powers[g] = std::pow(static_cast<double>(g + 1), power_a - 1);
  const double largest = *std::max_element(powers.begin(), powers.end());

  std::vector<std::uint64_t> weights(powers.size());
  std::transform(powers.begin(), powers.end(), weights.begin(), [&](double power) {
    return std::max<std::uint64_t>(1, std::llround(power / largest * 0x1p32));
  });
  return weights;
}

// Writes sequences of one size. A generator is cheap to make and must not be shared by threads.
class Generator {
 public:
  Generator(const MqarOptions& options, const MqarSize& size,
            std::span<const std::uint64_t> gap_weights)
      : filler_(options.filler),
        vocab_(static_cast<std::uint64_t>(options.vocab)),
        first_value_(options.vocab / 2),
        key_sampler_(first_value_ - 1),
        value_sampler_(options.vocab - first_value_),
        gap_sampler_(gap_weights),
        is_key_(static_cast<std::size_t>(first_value_), 0),
        keys_(static_cast<std::size_t>(size.n_pairs)),
        values_(keys_.size()),
        gaps_(keys_.size()) {}

  // Draws the filler last: the pairs and queries of a sequence do not depend on its kind.
  void write(Rng& rng, Tokens inputs, Tokens labels) {
    key_sampler_.draw(rng, keys_);
    value_sampler_.draw(rng, values_);
    gap_sampler_.draw(rng, gaps_);
    std::fill(inputs.begin(), inputs.end(), empty_token);
    std::fill(labels.begin(), labels.end(), ignored_label);
    const std::size_t context = 2 * keys_.size();
    for (std::size_t p = 0; p < keys_.size(); ++p) {
      const std::int32_t key = 1 + keys_[p], value = first_value_ + values_[p];
      const std::size_t query = context + 2 * static_cast<std::size_t>(gaps_[p]);
      inputs[2 * p] = key;
      inputs[2 * p + 1] = value;
      inputs[query] = key;
      labels[query] = value;
    }
    fill_rest(rng, inputs.subspan(context));
  }

 private:
  static constexpr std::int32_t empty_token = 0;  // neither a key nor a value

  void fill_rest(Rng& rng, Tokens tokens) {
    if (filler_ == MqarFiller::zero) return;
    if (filler_ == MqarFiller::random_unused) mark_keys(1);
    for (std::int32_t& token : tokens) {
      if (token != empty_token) continue;
      do token = static_cast<std::int32_t>(rng.below(vocab_));
      while (token < first_value_ && is_key_[static_cast<std::size_t>(token)] != 0);
    }
    if (filler_ == MqarFiller::random_unused) mark_keys(0);
  }

  void mark_keys(std::uint8_t mark) {
    for (const std::int32_t key : keys_) is_key_[static_cast<std::size_t>(1 + key)] = mark;
  }

  const MqarFiller filler_;
  const std::uint64_t vocab_;
  const std::int32_t first_value_;
  UniformSampler key_sampler_, value_sampler_;
  WeightedSampler gap_sampler_;
  std::vector<std::uint8_t> is_key_;  // keys the filler must avoid; all 0 between sequences
  std::vector<std::int32_t> keys_, values_, gaps_;
};

class MqarTask final : public Task {
 public:
  MqarTask(MqarOptions options, std::uint64_t seed)
      : options_(std::move(options)),
        seed_(seed),
        sizes_(sizes_of(options_)),
        schedule_(weights_of(sizes_), seed),
        groups_(names_of(sizes_)) {
    for (const MqarSize& size : sizes_) gap_weights_.push_back(gap_weights(size, options_.power_a));
  }

  std::int64_t vocab_size() const override { return options_.vocab; }
  std::int64_t max_seq_len() const override { return longest(sizes_); }
  const std::vector<std::string>& groups() const override { return groups_; }
  std::int64_t test_size() const override { return options_.n_test; }
  int group_at(std::uint64_t step) const override { return schedule_.at(step); }

  Batch sequences(Split split, int group, std::uint64_t first, std::int64_t count) const override {
    check_request(group, count);
    const MqarSize& size = sizes_[static_cast<std::size_t>(group)];
    Generator generator(options_, size, gap_weights_[static_cast<std::size_t>(group)]);
    Batch batch = make_batch(count, size.seq_len, [&](auto row, Tokens inputs, Tokens labels) {
      Rng rng({seed_, stream_of(split, size, first + row)});
      generator.write(rng, inputs, labels);
    });
    batch.group = group;
    return batch;
  }

 private:
  // The stream depends on the size and not on the group: a size has equal sequences in any mixture.
  static std::uint64_t stream_of(Split split, const MqarSize& size, std::uint64_t index) {
    const auto code =
        static_cast<std::uint64_t>(size.seq_len) << 32 | static_cast<std::uint64_t>(size.n_pairs);
    return sequence_stream("mqar", code, split, index);
  }

  static std::vector<double> weights_of(const std::vector<MqarSize>& sizes) {
    std::vector<double> weights;
    for (const MqarSize& size : sizes) weights.push_back(size.weight);
    return weights;
  }

  // Names sizes by the number of pairs alone if that distinguishes them.
  static std::vector<std::string> names_of(const std::vector<MqarSize>& sizes) {
    std::vector<std::string> names;
    for (const MqarSize& size : sizes) {
      const auto alike = [&](const MqarSize& other) { return other.n_pairs == size.n_pairs; };
      const bool is_unique = std::count_if(sizes.begin(), sizes.end(), alike) == 1;
      names.push_back(is_unique ? fmt::format("n_pairs={}", size.n_pairs)
                                : fmt::format("seq_len={},n_pairs={}", size.seq_len, size.n_pairs));
    }
    return names;
  }

  const MqarOptions options_;
  const std::uint64_t seed_;
  const std::vector<MqarSize> sizes_;
  const MixtureSchedule schedule_;
  const std::vector<std::string> groups_;
  std::vector<std::vector<std::uint64_t>> gap_weights_;  // of each size
};

void check_even(const MqarSize& size) {
  if (size.seq_len % 2 != 0) throw ConfigError("expected an even number, got {}", size.seq_len);
}

// If 4P <= n, there are (n - 2P) / 2 >= P gaps.
void check_room(const MqarSize& size) {
  if (size.n_pairs > size.seq_len / 4)
    throw ConfigError("n_pairs = {} is more than a quarter of seq_len = {}", size.n_pairs,
                      size.seq_len);
}

// If V > n >= 4P, there are V / 2 - 1 >= 2P - 1 >= P keys, and as many values.
void check_vocab(const MqarOptions& options) {
  for (const MqarSize& size : sizes_of(options)) {
    if (options.vocab <= size.seq_len)
      throw ConfigError("vocab = {} is not above seq_len = {}", options.vocab, size.seq_len);
  }
}

void check_twins(const std::vector<MqarSize>& mixture) {
  for (auto size = mixture.begin(); size != mixture.end(); ++size) {
    const auto is_same = [&](const MqarSize& other) {
      return other.seq_len == size->seq_len && other.n_pairs == size->n_pairs;
    };
    if (std::any_of(mixture.begin(), size, is_same))
      throw ConfigError("seq_len = {}, n_pairs = {} is listed twice", size->seq_len, size->n_pairs);
  }
}

bool sets_seq_len(const MqarOptions& options) { return options.seq_len != MqarOptions().seq_len; }
bool sets_vocab(const MqarOptions& options) { return options.vocab != MqarOptions().vocab; }

// If two values do not fit together, the error names the one that was set.
void check_seq_len(const MqarOptions& options) {
  if (!sets_seq_len(options) || !options.mixture.empty()) return;
  check_even(sizes_of(options).front());
  check_room(sizes_of(options).front());
  if (!sets_vocab(options)) check_vocab(options);
}

}  // namespace

void MqarSize::describe(Schema& schema) {
  schema.field("seq_len", seq_len, "tokens in a sequence, even").required().at_least(4);
  schema.field("n_pairs", n_pairs, "key-value pairs in a sequence").required().at_least(1);
  schema.field("weight", weight, "share of the training steps, relative to the others")
      .positive()
      .at_most(1e9);
  schema.check("seq_len", [this] {
    check_even(*this);
    check_room(*this);
  });
}

void MqarOptions::describe(Schema& schema) {
  schema.field("vocab", vocab, "tokens: keys in the lower half, values in the upper").at_least(4);
  const auto has_one_size = [this] { return mixture.empty(); };
  schema.field("seq_len", seq_len, "tokens in a sequence, even")
      .at_least(4)
      .only_if(has_one_size, "mixture: []");
  schema.field("n_pairs", n_pairs, "key-value pairs in a sequence")
      .at_least(1)
      .only_if(has_one_size, "mixture: []");
  schema.field("power_a", power_a, "gaps g before a query have weight (g + 1)^(power_a - 1)")
      .positive()
      .at_most(10);
  schema.choice(
      "filler", filler,
      {{"zero", MqarFiller::zero},
       {"random", MqarFiller::random},
       {"random_unused", MqarFiller::random_unused}},
      "tokens between the queries: 0, any token, or any that is not a key of the sequence");
  schema.list("mixture", mixture, "several sizes, instead of seq_len and n_pairs");
  schema.field("n_test", n_test, "test sequences of each size").at_least(1);
  schema.check("seq_len", [this] { check_seq_len(*this); });
  schema.check("n_pairs", [this] {
    if (n_pairs != MqarOptions().n_pairs && mixture.empty() && !sets_seq_len(*this))
      check_room(sizes_of(*this).front());
  });
  schema.check("mixture", [this] {
    check_twins(mixture);
    if (!mixture.empty() && !sets_vocab(*this)) check_vocab(*this);
  });
  schema.check("vocab", [this] {
    if (sets_vocab(*this)) check_vocab(*this);
  });
}

void MqarOptions::check(std::uint64_t /*seed*/) const { validate_options(*this, "mqar"); }

TaskSize MqarOptions::least_size() const { return {vocab, longest(sizes_of(*this))}; }

std::unique_ptr<Task> MqarOptions::build(std::uint64_t seed) const {
  check(seed);
  return std::make_unique<MqarTask>(*this, seed);
}

}  // namespace mobius
