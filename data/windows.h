// Windows of equal length over token sources: the sequences of a language-modelling task.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/token_source.h"

namespace mobius {

/// Tokens begin .. end - 1 of a source.
struct TokenRange {
  std::shared_ptr<const TokenSource> source;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t size() const { return end - begin; }
};

std::uint64_t count_tokens(const std::vector<TokenRange>& ranges);

/// Adjacent windows, none across two ranges. A window reads length + 1 tokens and labels all but
/// the first. Every token of a range except the first is labelled by exactly one window, apart from
/// fewer than `length` left-over tokens per range.
class TokenWindows {
 public:
  TokenWindows(std::vector<TokenRange> ranges, std::int64_t length);

  std::uint64_t size() const { return first_window_.back(); }
  /// The range that window `index` < size() lies in.
  std::size_t range_of(std::uint64_t index) const;
  /// Reads the length + 1 tokens of window `index` < size() into `out`. All windows of its range
  /// are shifted by `shift` <= slack(range) tokens, which changes the tokens that are left over.
  void read(std::uint64_t index, std::uint64_t shift, std::span<std::int32_t> out) const;

  /// Number of tokens of a range, apart from its first, that no window labels.
  std::uint64_t slack(std::size_t range) const;

  /// Number of tokens in all ranges.
  std::uint64_t n_tokens() const { return count_tokens(ranges_); }
  /// Returns a hash of the length and the tokens of each range: of all tokens up to 8 million in
  /// total, and otherwise of evenly spaced blocks, to avoid reading large files.
  std::uint64_t digest() const;

 private:
  std::vector<TokenRange> ranges_;
  std::uint64_t length_;
  std::vector<std::uint64_t> first_window_;  // of each range, then the total
};

}  // namespace mobius
