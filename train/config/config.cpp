#include "train/config/config.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "core/backend.h"
#include "core/error.h"
#include "core/path.h"
#include "core/thread_limit.h"
#include "nn/language_model.h"
#include "train/config/reader.h"
#include "train/config/writer.h"
#include "train/io/printable.h"

namespace mobius {

namespace {

OptionField& describe_metric(Schema& schema, Metric& metric, std::string help) {
  return schema.choice("metric", metric, {{"loss", Metric::loss}, {"accuracy", Metric::accuracy}},
                       std::move(help));
}

// Pairs of a dotted path and the value as YAML.
using KeyValues = std::vector<std::pair<std::string, std::string>>;

// Appends every value below a schema in its order.
void flatten(const Schema& schema, const std::string& path, KeyValues& values) {
  for (const OptionEntry* entry : schema.entries()) {
    const std::string key = join_path(path, key_of(*entry));
    if (const auto* field = std::get_if<OptionField>(entry)) {
      values.emplace_back(key, to_yaml(field->value()));
    } else if (const auto* section = std::get_if<OptionSection>(entry)) {
      flatten(section->schema(), key, values);
    } else if (const auto* list = std::get_if<OptionList>(entry)) {
      for (std::size_t i = 0; i < list->size(); ++i) {
        flatten(*list->element(i), join_path(key, std::to_string(i)), values);
      }
    } else if (const auto* variant = std::get_if<OptionVariant>(entry)) {
      values.emplace_back(key, variant->current());
    }
  }
}

KeyValues flatten(Config& config) {
  KeyValues values;
  flatten(*describe(config), "", values);
  return values;
}

void require_all_up_to(std::int64_t count, const std::vector<std::int64_t>& numbers,
                       std::string_view name) {
  for (const std::int64_t number : numbers) {
    if (number > count) throw ConfigError("expected at most {} = {}, got {}", name, count, number);
  }
}

void require_device(const std::string& name) {
  // Not the GPUs of this machine, for a configuration is to be valid everywhere.
  if (name == "auto" || name == "cpu" || name == "cuda") return;
  if (name == "test" && test_backend(0)) return;  // of a test program
  if (name.starts_with("cuda:")) {
    throw printable_error("expected cuda, got '{}'; CUDA_VISIBLE_DEVICES={} chooses the GPU", name,
                          name.substr(5));
  }
  throw printable_error("expected auto, cpu or cuda, got '{}'", name);
}

// Checks that involve several sections.
void describe_checks(Schema& schema, const Config& config) {
  schema.check("task", [&config] { config.task->check(config.train.seed); });
  schema.check("attention.kind", [&config] {
    config.attention->require_trainable();
    require_buildable(config.model, *config.attention);
  });
  schema.check("schedule.warmup_steps", [&config] {
    if (config.schedule.warmup_steps > config.train.max_steps) {
      throw ConfigError(
          "must not exceed train.max_steps = {}, got {}; add schedule.warmup_steps={}",
          config.train.max_steps, config.schedule.warmup_steps, config.train.max_steps / 10);
    }
  });
  schema.check("train.early_stop.threshold", [&config] {
    if (config.train.early_stop.threshold && config.eval.every == 0) {
      throw ConfigError("needs evaluations during training, but eval.every is 0");
    }
  });
  schema.check("eval.map_layers", [&config] {
    require_all_up_to(config.model.n_layers, config.eval.map_layers, "model.n_layers");
  });
  schema.check("eval.map_heads", [&config] {
    require_all_up_to(config.model.n_heads, config.eval.map_heads, "model.n_heads");
  });
}

}  // namespace

void EarlyStopOptions::describe(Schema& schema) {
  describe_metric(schema, metric, "test metric that decides")
      .only_if([this] { return threshold.has_value(); }, "threshold: NUMBER");
  schema.field("threshold", threshold,
               "stop once the metric is this good: accuracy at least, loss at most; null: never");
  schema.check("threshold", [this] {
    if (!threshold) return;
    if (metric == Metric::accuracy && !(*threshold >= 0 && *threshold <= 1))
      throw ConfigError("an accuracy lies in [0, 1], got {}", *threshold);
    if (metric == Metric::loss && !(*threshold > 0))
      throw ConfigError("no loss gets to {}: expected a number above 0", *threshold);
  });
}

bool EarlyStopOptions::is_reached(const Score& test) const {
  return threshold && test.is_finite() && !is_better(metric, *threshold, value_of(metric, test));
}

void TrainOptions::describe(Schema& schema) {
  schema.field("max_steps", max_steps, "optimiser steps").positive();
  schema.field("batch_size", batch_size, "sequences a step").positive();
  schema
      .field("accumulation_steps", accumulation_steps,
             "micro-batches a step is computed in, one after another, to save memory")
      .positive();
  schema.choice(
      "precision", precision, {{"f32", MatmulPrecision::full}, {"bf16", MatmulPrecision::bf16}},
      "of the factors of the linear layers' products, and of attention's where the device is "
      "faster for it; weights, sums and all else are f32");
  schema.field("seed", seed, "of the data, the initial values and dropout")
      .non_negative()
      .unbounded();
  schema.field("clip_grad_norm", clip_grad_norm, "largest global gradient norm; null: no clipping")
      .positive();
  schema.section("early_stop", early_stop, "when to end before max_steps");
  schema.field("device", device,
               "what computes: cpu, cuda (a GPU), or auto: a GPU where one can be used");
  schema.check("device", [this] { require_device(device); });
  // Not the cores of this machine, for a configuration is to be valid everywhere.
  schema.field("threads", threads, "0: OMP_NUM_THREADS where it is set, else every core")
      .non_negative()
      .at_most(most_threads);
  schema.field("log_every", log_every, "steps between lines of metrics.jsonl").positive();
  schema.check("accumulation_steps", [this] {
    if (batch_size % accumulation_steps != 0) {
      throw ConfigError("must divide batch_size = {}, got {}", batch_size, accumulation_steps);
    }
  });
}

void DistributedOptions::describe(Schema& schema) {
  schema
      .field("zero_stage", zero_stage,
             "0: every rank keeps the optimiser's whole state; 1: an equal share of it")
      .non_negative()
      .at_most(1);
  schema
      .field("bucket_mib", bucket_mib,
             "gradients that ranks exchange at a time, in MiB, while others are still computed")
      .positive()
      .at_most(1024);
}

void EvalOptions::describe(Schema& schema) {
  schema.field("every", every, "steps between passes over the test sequences; 0: at the end alone")
      .non_negative();
  schema.field(
      "diagnostics", diagnostics,
      "write entropy of the weights, alpha and tau of every head, on the first test batch");
  schema.field("attention_maps", attention_maps,
               "when the run ends, write the weights of heads on the first test sequence, for "
               "reports");
  const auto writes_maps = [this] { return attention_maps; };
  schema.field("map_layers", map_layers, "layers whose weights are written, from 1; empty: all")
      .positive()
      .only_if(writes_maps, "attention_maps: true");
  schema.field("map_heads", map_heads, "heads of these layers, from 1; empty: all")
      .positive()
      .only_if(writes_maps, "attention_maps: true");
}

void CheckpointOptions::describe(Schema& schema) {
  schema.field("every", every, "steps between checkpoints; 0: at the end alone").non_negative();
  schema.field("keep_last", keep_last, "how many of them to keep").positive();
  schema.field("keep_best", keep_best, "keep the best evaluated state too, as best.h5");
  describe_metric(schema, metric,
                  "test metric that says which state is best, and which run of a comparison");
}

void OutputOptions::describe(Schema& schema) {
  schema.field("dir", dir, "folder of the run; empty: runs/ and the configuration's name");
  schema.field("tensorboard", tensorboard, "write the metrics for TensorBoard, too");
}

Config::Config(const Registries& known)
    : attention(known.attentions.choose("softmax")),
      optimizer(known.optimizers.choose("adamw")),
      known_(known) {}

void Config::describe(Schema& schema) {
  schema.section("task", "what to learn").variant("name", task, known_.tasks, "kind of sequences");
  schema.section("model", model, "the model around the attention");
  schema.section("attention", "how positions see each other")
      .variant("kind", attention, known_.attentions, "attention variant");
  schema.section("optimizer", "how gradients become updates")
      .variant("name", optimizer, known_.optimizers, "update rule");
  schema.section("schedule", schedule, "learning rate over the steps");
  schema.section("train", train, "the training loop");
  schema.section("distributed", distributed, "how the ranks of mpirun or srun share the work");
  schema.section("eval", eval, "scores on the test sequences");
  schema.section("checkpoint", checkpoint, "what to save");
  schema.section("output", output, "where to write");
  describe_checks(schema, *this);
}

std::unique_ptr<Config> make_config(const ConfigDocument& document, const Registries& known) {
  if (const ConfigEntry* entry = find_comparison_key(document)) {
    throw printable_error("{}: {}: makes this a comparison, which 'mobius compare {}' trains",
                          entry->where, entry->key, document.name());
  }
  auto config = std::make_unique<Config>(known);
  const std::unique_ptr<Schema> schema = describe(*config);
  read_config(document, *schema);
  std::string& dir = config->output.dir;
  if (dir.empty()) dir = "runs/" + std::filesystem::path(document.name()).stem().string();
  dir = expand_home(dir);
  return config;
}

std::unique_ptr<Config> parse_config(const std::string& text, const std::string& name,
                                     const Registries& known,
                                     const std::vector<std::string>& overrides) {
  ConfigDocument document = ConfigDocument::from_text(text, name);
  for (const std::string& assignment : overrides) document.override_with(assignment);
  return make_config(document, known);
}

const ConfigEntry* find_comparison_key(const ConfigDocument& document) {
  for (const std::string_view key : comparison_keys) {
    if (const ConfigEntry* entry = document.root().find(key)) return entry;
  }
  return nullptr;
}

std::string resolved_yaml(Config& config) { return to_yaml(*describe(config)); }

std::vector<ConfigChange> changes(Config& before, Config& after) {
  const KeyValues new_values = flatten(after);
  std::map<std::string, std::string> left(new_values.begin(), new_values.end());
  std::vector<ConfigChange> found;
  for (const auto& [key, value] : flatten(before)) {
    const auto entry = left.extract(key);
    const std::string new_value = entry.empty() ? "" : entry.mapped();
    if (value != new_value) found.push_back({key, value, new_value});
  }
  for (const auto& [key, value] : new_values) {
    if (left.contains(key)) found.push_back({key, "", value});
  }
  return found;
}

bool is_data_place(Config& config, const std::string& key) {
  const std::vector<DataPlace> places = config.task->places();
  return std::any_of(places.begin(), places.end(),
                     [&](const DataPlace& place) { return key == "task." + place.key; });
}

bool may_change_on_resume(Config& config, const std::string& key) {
  if (is_data_place(config, key)) return true;
  constexpr std::array<std::string_view, 3> fixed_sections = {"task.", "model.", "attention."};
  constexpr std::array<std::string_view, 3> fixed_keys = {"optimizer.name", "train.seed",
                                                          "train.batch_size"};
  return std::none_of(fixed_sections.begin(), fixed_sections.end(),
                      [&](std::string_view section) { return key.starts_with(section); }) &&
         std::find(fixed_keys.begin(), fixed_keys.end(), key) == fixed_keys.end();
}

}  // namespace mobius
