// Checkpoints with valid checksums.
#include "train/checkpoint/checkpoint.h"

#include <cmath>

#include "data/tokenizer.h"
#include "tests/data/some_text.h"
#include "tests/fuzz/target.h"
#include "tests/hostile_checkpoint.h"
#include "train/run/experiment.h"

namespace mobius {

namespace fs = std::filesystem;

namespace {

CheckpointHeader header_with(const std::optional<TokenizerModel>& tokenizer) {
  CheckpointHeader header;
  header.step = 7;
  header.seed = 1;
  header.config = fuzz_config;
  header.optimizer_steps = 7;
  header.progress = {{"train_seconds", 1.5}, {"tokens", 100}, {"evaluated_step", 6}};
  header.tokenizer = tokenizer;
  header.data = "12 tokens";
  return header;
}

// Makes the model of fuzz_config with more or fewer parameters, because HDF5 stores many members of
// a group differently from few.
CheckpointTensors tensors_with(bool is_small) {
  CheckpointTensors tensors;
  if (!is_small) {
    const Registries known;
    const auto config = parse_config(fuzz_config, "run.yaml", known);
    tensors = tensors_of(*build_experiment(*config).model);
  }
  tensors.parameters.push_back({"z.weight", Tensor::full({2, 3}, 1)});
  tensors.buffers.push_back({"index", Tensor::zeros({2}, DType::i64)});
  tensors.optimizer = {{"m/z.weight", Tensor::full({2, 3}, 0.5)},
                       {"v/z.weight", Tensor::full({2, 3}, 0.25)}};
  return tensors;
}

class CheckpointTarget final : public FuzzTarget {
 public:
  explicit CheckpointTarget(const fs::path& folder) : folder_(folder) {
    const fs::path path = folder / "good.h5";
    const auto add = [&](const std::optional<TokenizerModel>& tokenizer, bool is_small) {
      save_checkpoint(path, header_with(tokenizer), tensors_with(is_small));
      files_.push_back(read_text(path));
    };
    add(TokenizerModel{"char", "abc"}, true);
    add(std::nullopt, false);
    add(train_sentencepiece(some_text(40), 300, SentencePieceKind::unigram)->model(), true);
  }

  std::string make(FuzzRandom& random) override {
    std::string content = random.one_of(files_);
    if (random.chance(3)) {  // a change by the library first
      const fs::path path = folder_ / "changed.h5";
      write_text(path, content);
      alter_checkpoint(path, random.one_of(changes_).apply);
      content = read_text(path);
      if (random.chance(2)) return content;
    }
    return with_valid_checksum(mutate_bytes(content, checksum_block_bytes, random));
  }

  std::string read(const fs::path& file) const override {
    const CheckpointHeader header = read_checkpoint_header(file);
    const std::vector<NamedTensor> parameters = read_parameters(file);
    if (const std::string problem = check(file, header, parameters); !problem.empty())
      return problem;
    const CheckpointTensors small = tensors_with(true), large = tensors_with(false);
    load_checkpoint(file,
                    differences(list_parameters(file), small.parameters).empty() ? small : large);
    if (header.tokenizer) {
      const auto tokenizer = make_tokenizer(*header.tokenizer);
      tokenizer->decode(tokenizer->encode("abc"));
    }
    const Registries known;
    parse_config(header.config, file.string(), known);
    return "";
  }

  std::vector<std::string> command(const fs::path& file) const override {
    return {"eval", file.string()};
  }

 private:
  std::string check(const fs::path& file, const CheckpointHeader& header,
                    const std::vector<NamedTensor>& parameters) const {
    if (header.step < 0 || header.step > std::int64_t{1} << 53)
      return nonsense("its step is invalid");
    std::uintmax_t bytes = 0;
    for (const auto& [name, value] : parameters) {
      bytes += value.bytes();
      if (!std::isfinite(sum_of_squares(value.to(DType::f64)))) {
        for (const double number : value.to_vector<double>())
          if (!std::isfinite(number)) return nonsense("a parameter is not finite");
      }
    }
    if (bytes > fs::file_size(file)) return nonsense("its parameters are larger than the file");
    const fs::path copy = folder_ / "copy.h5";
    save_checkpoint(copy, header, {.parameters = parameters, .buffers = {}, .optimizer = {}});
    const CheckpointHeader again = read_checkpoint_header(copy);
    const bool is_same = again.step == header.step && again.seed == header.seed &&
                         again.config == header.config && again.tokenizer == header.tokenizer &&
                         read_parameters(copy).size() == parameters.size();
    return is_same ? "" : nonsense("it does not survive writing and reading");
  }

  const fs::path folder_;
  const std::vector<HostileChange> changes_ = hostile_changes();
  std::vector<std::string> files_;
};

}  // namespace

std::unique_ptr<FuzzTarget> make_checkpoint_target(const fs::path& folder) {
  return std::make_unique<CheckpointTarget>(folder);
}

}  // namespace mobius
