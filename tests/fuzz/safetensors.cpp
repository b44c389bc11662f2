// Safetensors files.
#include "train/checkpoint/safetensors.h"

#include <cmath>
#include <cstring>

#include "tests/fuzz/target.h"
#include "tests/temporary_folder.h"
#include "train/checkpoint/checkpoint.h"
#include "train/run/experiment.h"

namespace mobius {

namespace fs = std::filesystem;

namespace {

std::vector<std::string> json_words() {
  std::vector<std::string> words = {"{",
                                    "}",
                                    "[",
                                    "]",
                                    "\"",
                                    ",",
                                    ":",
                                    "\\u0000",
                                    "\\u001b[2J",
                                    "\\n",
                                    "\n",
                                    "null",
                                    "true",
                                    "1.5",
                                    "-",
                                    "\xff",
                                    "\"\":0,",
                                    "\"a\":{},",
                                    "\"__metadata__\":{\"a\":\"b\"},",
                                    "\"__metadata__\":1,",
                                    "\"dtype\":\"F16\",",
                                    "\"dtype\":\"I64\",",
                                    "\"shape\":[1,1,1],",
                                    "\"data_offsets\":[0,0],",
                                    "F64",
                                    "BF16"};
  for (const char* repeated : {"[", "{\"a\":", "0,", "x", "\\n", "\"a\":{},"}) {
    std::string many;
    for (int i = 0; i < 20'000; ++i) many += repeated;
    words.push_back(many);
  }
  return words;
}

class SafetensorsTarget final : public FuzzTarget {
 public:
  explicit SafetensorsTarget(const fs::path& folder) : folder_(folder) {
    write_text(folder / "run.yaml", fuzz_config);
    const fs::path path = folder / "good.safetensors";
    write_safetensors(path, {.tensors = parameters(), .metadata = {{"step", "1"}}});
    const std::string file = read_text(path);
    std::uint64_t size;
    std::memcpy(&size, file.data(), sizeof size);
    header_ = file.substr(sizeof size, size);
    data_ = file.substr(sizeof size + size);
  }

  // The size of a damaged header stays correct, because a wrong one would hide all other damage.
  std::string make(FuzzRandom& random) override {
    const std::string header =
        random.chance(8) ? header_ : mutate_text(header_, words_, {header_, header_}, random);
    const std::uint64_t size = header.size();
    std::string file(sizeof size, '\0');
    std::memcpy(file.data(), &size, sizeof size);
    file += header;
    file += random.chance(4) ? mutate_bytes(data_, 0, random) : data_;
    return random.chance(10) ? mutate_bytes(file, 0, random) : file;
  }

  std::string read(const fs::path& file) const override {
    const Safetensors content = read_safetensors(file);
    const fs::path copy = folder_ / "copy.safetensors";
    write_safetensors(copy, content);
    const Safetensors again = read_safetensors(copy);
    if (again.metadata != content.metadata || again.tensors.size() != content.tensors.size())
      return nonsense("it does not survive writing and reading");

    const std::vector<NamedTensor> wanted = parameters();
    fill_from_safetensors(file, wanted);
    for (const auto& [name, value] : wanted) {
      if (!std::isfinite(sum_of_squares(value.to(DType::f64))))
        return nonsense(name + " is not finite");
    }
    return "";
  }

  std::vector<std::string> command(const fs::path& file) const override {
    return {"import", folder_ / "run.yaml", file, folder_ / "imported.h5"};
  }

 private:
  static std::vector<NamedTensor> parameters() {
    const Registries known;
    const auto config = parse_config(fuzz_config, "run.yaml", known);
    return tensors_of(*build_experiment(*config).model).parameters;
  }

  const fs::path folder_;
  const std::vector<std::string> words_ = json_words();
  std::string header_, data_;
};

}  // namespace

std::unique_ptr<FuzzTarget> make_safetensors_target(const fs::path& folder) {
  return std::make_unique<SafetensorsTarget>(folder);
}

}  // namespace mobius
