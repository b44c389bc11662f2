// Token sources cut into windows of one length: the sequences of a language-modelling task.
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

/// Windows that lie side by side, none across two ranges. A window labels `length` tokens and reads
/// length + 1, the last being the label of the one before: every token but the first of a range is
/// labelled by exactly one window, up to the fewer than `length` that are left over in each range.
class TokenWindows {
 public:
  TokenWindows(std::vector<TokenRange> ranges, std::int64_t length);

  std::uint64_t size() const { return first_window_.back(); }
  /// The range that window `index` < size() lies in.
  std::size_t range_of(std::uint64_t index) const;
  /// Reads window `index` < size() into `out`, length + 1 tokens, all windows of its range being
  /// moved by `shift` tokens, at most slack(range): where they begin, and which tokens are left
  /// over, then differ.
  void read(std::uint64_t index, std::uint64_t shift, std::span<std::int32_t> out) const;

  /// Labels that the windows of a range leave over.
  std::uint64_t slack(std::size_t range) const;

  /// Number of tokens in all ranges.
  std::uint64_t n_tokens() const;
  /// A number that depends on the length of each range and on its tokens: on all of them up to 8
  /// million in total, and on blocks at even distances beyond, so that large files need not be
  /// read.
  std::uint64_t digest() const;

 private:
  std::vector<TokenRange> ranges_;
  std::uint64_t length_;
  std::vector<std::uint64_t> first_window_;  // of each range, and the end
};

}  // namespace mobius
