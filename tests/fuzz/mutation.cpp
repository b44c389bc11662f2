#include "tests/fuzz/mutation.h"

#include <algorithm>
#include <cctype>
#include <cstring>

namespace mobius {

namespace {

// The position and length of a part of a text.
struct Part {
  std::size_t begin, size;
};

Part some_part(std::size_t begin, std::size_t end, FuzzRandom& random) {
  if (begin >= end) return {end, 0};
  const std::size_t at = begin + random.below(end - begin);
  const std::size_t longest = random.chance(4) ? end - at : std::min<std::size_t>(end - at, 16);
  return {at, 1 + random.below(longest)};
}

void flip_bit(std::string& bytes, std::size_t begin, FuzzRandom& random) {
  if (begin >= bytes.size()) return;
  char& byte = bytes[begin + random.below(bytes.size() - begin)];
  byte = static_cast<char>(byte ^ (1 << random.below(8)));
}

// Writes an integer of 1, 2, 4 or 8 bytes, little-endian.
void set_integer(std::string& bytes, std::size_t begin, FuzzRandom& random) {
  static const std::vector<std::uint64_t> values = {0,
                                                    1,
                                                    2,
                                                    0x7f,
                                                    0x80,
                                                    0xff,
                                                    0x100,
                                                    0x7fff,
                                                    0x8000,
                                                    0xffff,
                                                    0x7fffffff,
                                                    0x80000000,
                                                    0xffffffff,
                                                    0x100000000,
                                                    0x7fffffffffffffff,
                                                    0x8000000000000000,
                                                    0xfffffffffffffffe,
                                                    0xffffffffffffffff};
  const std::size_t size = std::size_t{1} << random.below(4);
  if (bytes.size() < begin + size) return;
  const std::size_t last = bytes.size() - size;
  const std::size_t at = begin + random.below(last - begin + 1);
  const std::uint64_t value = random.chance(4) ? bytes.size() : random.one_of(values);
  std::memcpy(bytes.data() + at, &value, size);
}

void remove_part(std::string& bytes, std::size_t begin, FuzzRandom& random) {
  const Part part = some_part(begin, bytes.size(), random);
  bytes.erase(part.begin, part.size);
}

void copy_part(std::string& bytes, std::size_t begin, FuzzRandom& random) {
  if (begin >= bytes.size()) return;
  const Part part = some_part(begin, bytes.size(), random);
  const std::string copy = bytes.substr(part.begin, part.size);
  const std::size_t at = begin + random.below(bytes.size() - begin);
  if (random.chance(2))
    bytes.insert(at, copy);
  else
    bytes.replace(at, std::min(copy.size(), bytes.size() - at), copy.substr(0, bytes.size() - at));
}

void clear_part(std::string& bytes, std::size_t begin, FuzzRandom& random) {
  const Part part = some_part(begin, bytes.size(), random);
  std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(part.begin), part.size, '\0');
}

void cut(std::string& bytes, std::size_t begin, FuzzRandom& random) {
  if (begin < bytes.size()) bytes.resize(begin + random.below(bytes.size() - begin));
}

void change_bytes(std::string& bytes, std::size_t begin, FuzzRandom& random) {
  switch (random.below(12)) {
    case 0:
      return remove_part(bytes, begin, random);
    case 1:
    case 2:
      return copy_part(bytes, begin, random);
    case 3:
      return clear_part(bytes, begin, random);
    case 4:
      return random.chance(8) ? cut(bytes, begin, random) : flip_bit(bytes, begin, random);
    case 5:
    case 6:
    case 7:
    case 8:
      return set_integer(bytes, begin, random);
    default:
      return flip_bit(bytes, begin, random);
  }
}

// Finds the runs of digits in a text.
std::vector<Part> numbers_in(const std::string& text) {
  std::vector<Part> numbers;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::size_t begin = at;
    while (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0) ++at;
    if (at > begin) numbers.push_back({begin, at - begin});
  }
  return numbers;
}

void change_number(std::string& text, FuzzRandom& random) {
  static const std::vector<std::string> values = {"0",
                                                  "-1",
                                                  "1",
                                                  "255",
                                                  "65536",
                                                  "2147483648",
                                                  "4294967296",
                                                  "9007199254740993",
                                                  "4611686018427387904",
                                                  "9223372036854775807",
                                                  "9223372036854775808",
                                                  "18446744073709551615",
                                                  "18446744073709551616",
                                                  "99999999999999999999999",
                                                  "1e308",
                                                  "1e999",
                                                  "-1e-999",
                                                  "1.5",
                                                  "nan",
                                                  ".inf",
                                                  "0x10",
                                                  "null",
                                                  "true",
                                                  ""};
  const std::vector<Part> numbers = numbers_in(text);
  if (numbers.empty()) return;
  const Part number = random.one_of(numbers);
  text.replace(number.begin, number.size, random.one_of(values));
}

void put_in(std::string& text, const std::string& part, FuzzRandom& random) {
  text.insert(random.below(text.size() + 1), part);
}

void change_text(std::string& text, const std::vector<std::string>& words,
                 const std::vector<std::string>& others, FuzzRandom& random) {
  switch (random.below(6)) {
    case 0:
    case 1:
      return change_number(text, random);
    case 2:
    case 3:
      return put_in(text, random.one_of(words), random);
    case 4: {
      const std::string& other = random.one_of(others);
      const Part part = some_part(0, other.size(), random);
      return put_in(text, other.substr(part.begin, part.size), random);
    }
    default:
      return change_bytes(text, 0, random);
  }
}

// Half of the inputs get a single change: more of them are accepted and read to their end.
std::size_t changes_of(FuzzRandom& random) { return random.chance(2) ? 1 : 1 + random.below(8); }

}  // namespace

std::string mutate_bytes(std::string bytes, std::size_t begin, FuzzRandom& random) {
  for (std::size_t left = changes_of(random); left > 0; --left) change_bytes(bytes, begin, random);
  return bytes;
}

std::string mutate_text(std::string text, const std::vector<std::string>& words,
                        const std::vector<std::string>& others, FuzzRandom& random) {
  for (std::size_t left = changes_of(random); left > 0; --left) {
    change_text(text, words, others, random);
  }
  return text;
}

}  // namespace mobius
