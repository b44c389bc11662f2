// Tensor instructions: mma.sync with float accumulators, and ldmatrix.

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>

#include "tests/gpuless/ptx/block.h"
#include "tests/gpuless/ptx/half.h"
#include "tests/gpuless/ptx/lane_loops.h"
#include "tests/gpuless/ptx/memory_path.h"

namespace mobius::ptx {

namespace {

constexpr int kRows = 16;    // of the product
constexpr int kColumns = 8;  // of the product

// How the elements of A (16 x K) and B (K x 8) lie in registers. Lane l has the group g = l / 4 and
// the member t = l % 4. Registers of 32 bits hold two neighbouring elements of 16 bits, or one of
// 32 bits.
//   A: register r holds row g + 8 (r % 2), B: column g; both hold k = first(t) + step (r / 2 for A,
//   r for B)
template <typename H, int kInner>
struct Fragments {
  static constexpr bool kIsSixteen = sizeof(H) == 2;
  static constexpr int kPerRegister = kIsSixteen ? 2 : 1;
  static constexpr int kStep = 4 * kPerRegister;
  static constexpr int kInnerRegisters = kInner / kStep;
  static constexpr int kARegisters = 2 * kInnerRegisters;
  static constexpr int kBRegisters = kInnerRegisters;
};

/// A float of which the tensor unit reads the upper 19 bits.
struct Tf32 {
  std::uint32_t bits;
};

// The elements of a register, lane by lane: the first of each lane, and with 16 bits the second.
template <typename H>
void unpack(const std::uint32_t* values, float (*parts)[kLanes]) {
  for (int lane = 0; lane < kLanes; ++lane) {
    if constexpr (sizeof(H) == 2) {
      parts[0][lane] = to_float(H{static_cast<std::uint16_t>(values[lane])});
      parts[1][lane] = to_float(H{static_cast<std::uint16_t>(values[lane] >> 16)});
    } else {
      parts[0][lane] = std::bit_cast<float>(values[lane] & ~0x1FFFu);
    }
  }
}

void require_all_lanes(Warp& warp, const Instruction& instruction, LaneMask active) {
  if (active != kAllLanes) {
    warp.fault(instruction, std::countr_zero(active), "not all lanes of the warp take part");
  }
}

// D = A B + C, in float. Places: D, A, B, C.
template <typename H, int kInner>
void run_mma(Warp& warp, const Instruction& instruction, LaneMask active) {
  require_all_lanes(warp, instruction, active);
  using Layout = Fragments<H, kInner>;
  const std::uint32_t* const places = warp.operands(instruction);
  const std::uint32_t* const a_places = places + 4;
  const std::uint32_t* const b_places = a_places + Layout::kARegisters;
  const std::uint32_t* const c_places = b_places + Layout::kBRegisters;
  constexpr int kParts = Layout::kPerRegister;
  float a[Layout::kARegisters][kParts][kLanes];
  float b[Layout::kBRegisters][kParts][kLanes];
  for (int r = 0; r < Layout::kARegisters; ++r)
    unpack<H>(warp.lanes_of<std::uint32_t>(a_places[r]), a[r]);
  for (int r = 0; r < Layout::kBRegisters; ++r)
    unpack<H>(warp.lanes_of<std::uint32_t>(b_places[r]), b[r]);
  // B by rows of the inner dimension, so that its columns are neighbours.
  float rows[kInner][kColumns];
  for (int k = 0; k < kInner; ++k) {
    const float* const of = b[k / Layout::kStep][k % kParts] + k % Layout::kStep / kParts;
    for (int column = 0; column < kColumns; ++column) rows[k][column] = of[4 * column];
  }
  for (int row = 0; row < kRows; ++row) {
    const int first_lane = row % 8 * 4;
    const int half = row / 8;
    float sums[kColumns];
    for (int column = 0; column < kColumns; ++column) {
      sums[column] = warp.lanes_of<float>(c_places[2 * half + column % 2])[first_lane + column / 2];
    }
    for (int k = 0; k < kInner; ++k) {
      const float factor =
          a[half + 2 * (k / Layout::kStep)][k % kParts][first_lane + k % Layout::kStep / kParts];
      for (int column = 0; column < kColumns; ++column)
        sums[column] = std::fma(factor, rows[k][column], sums[column]);
    }
    for (int column = 0; column < kColumns; ++column) {
      warp.lanes_of<float>(places[2 * half + column % 2])[first_lane + column / 2] = sums[column];
    }
  }
}

struct Shape {
  Run run;
  std::size_t a_registers;
  std::size_t b_registers;
};

template <typename H, int kInner>
constexpr Shape kShape = {&run_mma<H, kInner>, Fragments<H, kInner>::kARegisters,
                          Fragments<H, kInner>::kBRegisters};

Shape pick_shape(const Decoder& decoder, const Type& type) {
  const bool is_bfloat = type.kind == 'B';
  if (type.kind == 't') {
    if (decoder.has("m16n8k8")) return kShape<Tf32, 8>;
    if (decoder.has("m16n8k4")) return kShape<Tf32, 4>;
  } else if (type.bits == 16) {
    if (decoder.has("m16n8k16")) return is_bfloat ? kShape<Bfloat, 16> : kShape<Half, 16>;
    if (decoder.has("m16n8k8")) return is_bfloat ? kShape<Bfloat, 8> : kShape<Half, 8>;
  }
  return {nullptr, 0, 0};
}

// mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {d...}, {a...}, {b...}, {c...}
void decode_mma(Decoder& decoder) {
  constexpr Type kB32 = {'b', 32, false};
  const std::vector<Type> types = decoder.types();
  const bool is_known = types.size() == 4 && types[0].kind == 'f' && types[0].bits == 32 &&
                        types[3].bits == 32 && types[1].kind == types[2].kind &&
                        decoder.has("row") && decoder.has("col");
  if (!is_known) decoder.unknown();
  const Shape shape = pick_shape(decoder, types[1]);
  const std::size_t sizes[] = {4, shape.a_registers, shape.b_registers, 4};
  std::vector<std::uint32_t> places;
  for (std::size_t operand = 0; operand < 4; ++operand) {
    const auto names = decoder.elements(decoder.operand(operand));
    if (names.size() != sizes[operand]) decoder.unknown("fragments do not fit the shape");
    for (const std::string_view name : names) {
      places.push_back(operand == 0 ? decoder.destination(name, 32) : decoder.source(name, kB32));
    }
  }
  decoder.instruction.operands = decoder.add_operands(places);
  finish(decoder, shape.run, InstructionClass::tensor);
}

// ldmatrix reads 8 x 8 matrices of 16-bit elements. Lanes 8m to 8m + 7 give the addresses of the
// rows of matrix m, of 16 bytes each; lane l gets two neighbours of row l / 4, or of column l / 4
// with .trans.
constexpr std::uint16_t kTranspose = 1;
constexpr std::uint16_t kNarrowBase = 2;

std::uint64_t row_address(Warp& warp, const Instruction& instruction, int lane) {
  const auto offset = static_cast<std::uint64_t>(instruction.immediate);
  if ((instruction.flags & kNarrowBase) != 0) {
    return static_cast<std::uint32_t>(warp.lanes_of<std::uint32_t>(instruction.a)[lane] +
                                      static_cast<std::uint32_t>(offset));
  }
  return warp.lanes_of<std::uint64_t>(instruction.a)[lane] + offset;
}

using Matrix = std::array<std::array<std::uint16_t, 8>, 8>;

std::uint32_t element_pair(const Matrix& matrix, int lane, bool transpose) {
  const auto line = static_cast<std::size_t>(lane / 4);
  const auto place = static_cast<std::size_t>(lane % 4 * 2);
  const std::uint16_t low = transpose ? matrix[place][line] : matrix[line][place];
  const std::uint16_t high = transpose ? matrix[place + 1][line] : matrix[line][place + 1];
  return low | std::uint32_t{high} << 16;
}

void run_load_matrix(Warp& warp, const Instruction& instruction, LaneMask active) {
  require_all_lanes(warp, instruction, active);
  const std::uint32_t* const places = warp.operands(instruction);
  const int lanes = 8 * instruction.count;
  std::array<std::uint64_t, kLanes> addresses{};
  std::array<Matrix, 4> matrices;
  for (int lane = 0; lane < lanes; ++lane) {
    const auto index = static_cast<std::size_t>(lane);
    addresses[index] = row_address(warp, instruction, lane);
    read_shared(warp, instruction, lane, addresses[index], 16,
                matrices[index / 8][index % 8].data());
  }
  for (std::size_t m = 0; m < instruction.count; ++m) {
    std::uint32_t* const d = warp.lanes_of<std::uint32_t>(places[m]);
    for (int lane = 0; lane < kLanes; ++lane) {
      d[lane] = element_pair(matrices[m], lane, (instruction.flags & kTranspose) != 0);
    }
  }
  LaunchCounters& counters = warp.block().counters();
  ++counters.matrix_loads;
  ++counters.shared_reads.requests;
  counters.shared_reads.ideal_wavefronts += instruction.count;
  const LaneMask rows = lanes == kLanes ? kAllLanes : (LaneMask{1} << lanes) - 1;
  counters.shared_reads.wavefronts += count_wavefronts(addresses.data(), rows, 16);
}

void decode_ldmatrix(Decoder& decoder) {
  Instruction& instruction = decoder.instruction;
  if (!decoder.has("m8n8") || !decoder.has("b16") ||
      !(decoder.has("shared") || decoder.has("shared::cta"))) {
    decoder.unknown();
  }
  std::vector<std::uint32_t> places;
  for (const std::string_view name : decoder.elements(decoder.operand(0))) {
    places.push_back(decoder.destination(name, 32));
  }
  const std::size_t expected = decoder.has("x4") ? 4 : decoder.has("x2") ? 2 : 1;
  if (places.size() != expected) decoder.unknown();
  instruction.count = static_cast<std::uint8_t>(places.size());
  instruction.operands = decoder.add_operands(places);
  if (decoder.has("trans")) instruction.flags |= kTranspose;
  const AddressOperand address = decoder.address(decoder.operand(1));
  const auto base = decoder.find(address.base);
  const int bits = base && base->kind == Symbol::Kind::reg ? base->bits : 64;
  if (bits == 32) instruction.flags |= kNarrowBase;
  instruction.a = decoder.source(address.base, {'u', bits, false});
  instruction.immediate = address.offset;
  finish(decoder, &run_load_matrix, InstructionClass::memory);
}

}  // namespace

void add_tensor(DecodeTable& table) {
  table["mma"] = decode_mma;
  table["ldmatrix"] = decode_ldmatrix;
}

}  // namespace mobius::ptx
