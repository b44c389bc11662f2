#include "data/windows.h"

#include <algorithm>
#include <utility>

namespace mobius {
namespace {

std::uint64_t labels_in(const TokenRange& range) {
  return range.size() == 0 ? 0 : range.size() - 1;
}

}  // namespace

std::uint64_t count_tokens(const std::vector<TokenRange>& ranges) {
  std::uint64_t count = 0;
  for (const TokenRange& range : ranges) count += range.size();
  return count;
}

TokenWindows::TokenWindows(std::vector<TokenRange> ranges, std::int64_t length)
    : ranges_(std::move(ranges)), length_(static_cast<std::uint64_t>(length)), first_window_{0} {
  for (const TokenRange& range : ranges_) {
    first_window_.push_back(first_window_.back() + labels_in(range) / length_);
  }
}

std::uint64_t TokenWindows::slack(std::size_t range) const {
  return labels_in(ranges_[range]) % length_;
}

std::size_t TokenWindows::range_of(std::uint64_t index) const {
  const auto next = std::upper_bound(first_window_.begin(), first_window_.end(), index);
  return static_cast<std::size_t>(next - first_window_.begin()) - 1;
}

// FNV-1a over whole numbers.
std::uint64_t TokenWindows::digest() const {
  constexpr std::uint64_t block = 4096, most_blocks = 1024;
  const std::uint64_t stride = std::max<std::uint64_t>(1, n_tokens() / (block * most_blocks));
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&hash](std::uint64_t number) { hash = (hash ^ number) * 0x100000001b3; };
  std::vector<std::int32_t> tokens(block);
  for (const auto& [source, begin, end] : ranges_) {
    add(end - begin);
    for (std::uint64_t at = begin; at < end; at += stride * block) {
      const std::span<std::int32_t> part(tokens.data(), std::min(block, end - at));
      source->read(at, part);
      for (const std::int32_t token : part) add(static_cast<std::uint64_t>(token));
    }
  }
  return hash;
}

void TokenWindows::read(std::uint64_t index, std::uint64_t shift,
                        std::span<std::int32_t> out) const {
  const std::size_t range = range_of(index);
  const auto& [source, begin, end] = ranges_[range];
  source->read(begin + shift + (index - first_window_[range]) * length_, out);
}

}  // namespace mobius
