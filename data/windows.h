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
  /// Reads window `index` < size() into `out`, length + 1 tokens.
  void read(std::uint64_t index, std::span<std::int32_t> out) const { read(index, shifts_, out); }
  /// The same with the windows of each range moved together by shifts[range] tokens, at most
  /// slack(range): which tokens are left over, and where windows begin, then differ.
  void read(std::uint64_t index, std::span<const std::uint64_t> shifts,
            std::span<std::int32_t> out) const;

  std::size_t n_ranges() const { return ranges_.size(); }
  /// Labels that the windows of a range leave over.
  std::uint64_t slack(std::size_t range) const;

 private:
  std::vector<TokenRange> ranges_;
  std::uint64_t length_;
  std::vector<std::uint64_t> first_window_;  // of each range, and the end
  std::vector<std::uint64_t> shifts_;        // none
};

}  // namespace mobius
