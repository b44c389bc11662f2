// Times the attention of one more token after a context of n tokens, in f32 with batch 1 and
// without the projections: hierarchical conformal attention by its tree of moments, attention over
// a cache of all keys and values, and recurrent linear attention. Prints one JSON line; see
// bench/README.md for the arguments and the contract.
#include "train/studies/decoding.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "bench/process_memory.h"
#include "core/parallel.h"

namespace {

using namespace mobius;

struct Arguments {
  std::string kind = "tree";
  DecodingSizes sizes{};
  std::int64_t context = 1 << 20;
  double time_s = 2;
};

DecodingKind kind_of(const std::string& name) {
  for (const DecodingKind kind : all_decoding_kinds())
    if (name_of(kind) == name) return kind;
  throw Error("decoding: no kind '{}'", name);
}

Arguments parse(int argc, char** argv) {
  Arguments a;
  std::vector<std::string> names;
  for (const DecodingKind kind : all_decoding_kinds()) names.push_back(name_of(kind));
  CLI::App app{"Times the attention of one more token after a long context."};
  app.add_option("--kind", a.kind)->check(CLI::IsMember(names));
  app.add_option("--heads", a.sizes.n_heads);
  app.add_option("--head-dim", a.sizes.head_dim);
  app.add_option("--context", a.context, "tokens before");
  app.add_option("--window", a.sizes.window, "newest keys, which the tree reads exactly");
  app.add_option("--block", a.sizes.block, "keys of a leaf of the tree");
  app.add_option("--degree", a.sizes.degree, "of the features of keys in the tree, 0 to 2");
  app.add_option("--time-s", a.time_s, "time for at least this long");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return a;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments a = parse(argc, argv);
  const DecodingCost cost = cost_of(kind_of(a.kind), a.sizes, a.context, /*seed=*/1, a.time_s);
  fmt::print(R"({{"name": "Mobius", "kind": "{}", "heads": {}, "context": {}, "ms": {:.5f}, )"
             R"("ms_min": {:.5f}, "state_mb": {:.3f}, "peak_mb": {:.1f}, "threads": {}}})"
             "\n",
             a.kind, a.sizes.n_heads, a.context, cost.microseconds / 1e3,
             cost.least_microseconds / 1e3, static_cast<double>(cost.bytes) / (1 << 20), peak_mb(),
             num_threads());
}
