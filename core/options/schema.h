// Schema: the description of an options struct.
//
// An options struct describes itself once. The description serves strict reading
// (train/config/reader.h), the help of every key and the resolved configuration
// (train/config/writer.h).
//
//   struct AdamOptions {
//     double lr = 1e-3;
//     std::vector<double> betas = {0.9, 0.95};
//     std::optional<double> clip;
//
//     void describe(Schema& schema) {
//       schema.field("lr", lr, "peak learning rate").positive();
//       schema.field("betas", betas, "decay of the two moments").at_least(0).below(1);
//       schema.field("clip", clip, "largest global gradient norm, null for no limit").positive();
//       schema.field("warmup", warmup, "steps of warm-up").only_if([this] { return lr > 0; },
//                                                                  "lr: > 0");
//       schema.check("betas", [this] {
//         if (betas.size() != 2) throw ConfigError("expected 2 numbers, got {}", betas.size());
//       });
//     }
//   };
//
// A default is the member's value when it is described. A Schema refers to the members: it must not
// outlive the struct, and the struct must not move. A misuse of this interface (a key described
// twice, a range on a text) throws Error.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace mobius {

class Schema;
template <typename Options>
class Registry;
template <typename Options>
struct Chosen;

/// The value of a field of any type; monostate is null.
using OptionValue =
    std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<std::int64_t>,
                 std::vector<double>, std::vector<std::string>>;

enum class OptionType { boolean, integer, number, text };

/// The limit of every integer field with a lower bound, unless it is unbounded(). Sums and small
/// multiples of a few such numbers cannot overflow 64 bits.
inline constexpr std::int64_t largest_count = 1'000'000'000'000'000;

/// The form of a field: its type, whether it is a list, whether null is allowed, and the range of
/// an integer member.
struct OptionForm {
  OptionType type;
  bool is_list = false;
  bool is_nullable = false;
  std::int64_t smallest = std::numeric_limits<std::int64_t>::min();
  std::int64_t largest = std::numeric_limits<std::int64_t>::max();
};

/// How an OptionValue holds a member type: bool, any integer type, double, std::string, std::vector
/// of integers, doubles or strings, and std::optional of all these.
template <typename T>
struct OptionCodec;

/// The base of every kind of entry.
class OptionKey {
 public:
  OptionKey(std::string key, std::string help) : key_(std::move(key)), help_(std::move(help)) {}

  const std::string& key() const { return key_; }
  const std::string& help() const { return help_; }

 private:
  std::string key_;
  std::string help_;
};

/// A key bound to a member. Limits chain: schema.field(...).at_least(0).below(1). Limits of a list
/// apply to every element.
class OptionField : public OptionKey {
 public:
  using Get = std::function<OptionValue()>;
  using Set = std::function<void(const OptionValue&)>;

  OptionField(std::string key, std::string help, OptionForm form, Get get, Set set);

  OptionField& positive() { return above(0); }
  OptionField& non_negative() { return at_least(0); }
  OptionField& above(double value) { return bound(lower_, {value, false}); }
  OptionField& at_least(double value) { return bound(lower_, {value, true}); }
  OptionField& below(double value) { return bound(upper_, {value, false}); }
  OptionField& at_most(double value) { return bound(upper_, {value, true}); }
  OptionField& one_of(std::vector<std::string> choices);  // of texts
  OptionField& required();                                // no default: the user must say it
  /// Lifts the limit largest_count. For numbers that are only compared: seeds, and counts whose
  /// large values mean "all".
  OptionField& unbounded();
  /// Declares that the key has an effect only if `condition` holds, which `when` words as a file
  /// would: only_if([this] { return positions == Positions::rope; }, "positions: rope"). Otherwise
  /// a value other than the default is an error, "has no effect unless positions: rope".
  OptionField& only_if(std::function<bool()> condition, std::string when);

  const OptionForm& form() const { return form_; }
  const std::vector<std::string>& choices() const { return choices_; }
  bool is_required() const { return is_required_; }
  const std::string& when() const { return when_; }  // of only_if(); empty: always

  std::string type_name() const;  // "integer", "list of numbers", "text or null"
  std::string range() const;      // "> 0", "in [0, 1)", "softmax | conformal", "" where free

  /// The member's value when it was described, and now.
  const OptionValue& initial() const { return initial_; }
  OptionValue value() const { return get_(); }

  /// Sets the member. Throws ConfigError and leaves the member unchanged if the value is outside
  /// the limits.
  void assign(const OptionValue& value) const;

  /// Throws ConfigError unless the value is within the limits.
  void verify(const OptionValue& value) const;
  /// Throws ConfigError if the member differs from its default although it has no effect.
  void require_effect() const;

 private:
  friend class Schema;

  struct Bound {
    double value;
    bool inclusive;
  };

  OptionField& bound(std::optional<Bound>& side, Bound bound);
  bool contains(double value) const;
  void verify_held(std::monostate) const {}
  void verify_held(bool) const {}
  void verify_held(std::int64_t value) const;
  void verify_held(double value) const;
  void verify_held(const std::string& value) const;
  template <typename T>
  void verify_held(const std::vector<T>& list) const;

  OptionForm form_;
  Get get_;
  Set set_;
  OptionValue initial_;
  std::optional<Bound> lower_;
  std::optional<Bound> upper_;
  std::vector<std::string> choices_;
  std::function<bool()> condition_;  // of only_if(); empty: always
  std::string when_;
  bool is_required_ = false;
  bool is_unbounded_ = false;
};

/// A key with a schema of its own below it.
class OptionSection : public OptionKey {
 public:
  using OptionKey::OptionKey;
  Schema& schema() const { return *schema_; }

 private:
  friend class Schema;

  std::unique_ptr<Schema> schema_;
};

/// Default options with their schema, for help and messages.
struct OptionPreview {
  std::shared_ptr<void> options;
  std::unique_ptr<Schema> schema;
};

/// A key with a list of structs below it.
class OptionList : public OptionKey {
 public:
  using OptionKey::OptionKey;
  std::size_t size() const { return size_(); }
  void reset(std::size_t size) const { reset_(size); }  // that many default elements
  std::unique_ptr<Schema> element(std::size_t index) const { return element_(index); }
  OptionPreview preview() const { return preview_(); }

 private:
  friend class Schema;

  std::function<std::size_t()> size_;
  std::function<void(std::size_t)> reset_;
  std::function<std::unique_ptr<Schema>(std::size_t)> element_;
  std::function<OptionPreview()> preview_;
};

/// A key that chooses one kind of a registry. The keys of the chosen kind follow it.
class OptionVariant : public OptionKey {
 public:
  using OptionKey::OptionKey;
  struct Kind {
    std::string name;
    std::string help;
  };

  const std::vector<Kind>& kinds() const { return kinds_; }
  const std::string& initial() const { return initial_; }  // empty: must be chosen

  std::string current() const { return current_(); }  // empty: none yet
  Schema& active() const { return *active_; }         // of the current kind; empty where none

  /// Sets default options of the named kind, unless it is the current kind. Throws ConfigError if
  /// the name is unknown.
  void choose(std::string_view name);
  OptionPreview preview(std::string_view name) const { return preview_(name); }

 private:
  friend class Schema;

  std::vector<Kind> kinds_;
  std::string initial_;
  std::function<std::string()> current_;
  std::function<std::unique_ptr<Schema>(std::string_view)> choose_;
  std::function<OptionPreview(std::string_view)> preview_;
  std::unique_ptr<Schema> active_;
};

using OptionEntry = std::variant<OptionField, OptionSection, OptionList, OptionVariant>;

const std::string& key_of(const OptionEntry& entry);

class Schema {
 public:
  /// A condition over several fields. `run` throws an Error if it fails. `key` is the key to blame,
  /// relative to this schema and dotted if it lies deeper.
  struct Check {
    std::string key;
    std::function<void()> run;
  };

  Schema();
  Schema(Schema&&) noexcept;
  Schema& operator=(Schema&&) noexcept;
  ~Schema();

  /// Describes a value of any type that OptionCodec holds.
  template <typename T>
  OptionField& field(std::string key, T& member, std::string help);

  /// Describes a value of an enumeration by name:
  ///   schema.choice("kind", kind, {{"cosine", Decay::cosine}, {"none", Decay::none}}, "...");
  template <typename T>
  OptionField& choice(std::string key, T& member,
                      std::type_identity_t<std::vector<std::pair<std::string, T>>> names,
                      std::string help);

  /// Adds a section, which the caller or the options struct fills.
  Schema& section(std::string key, std::string help);
  template <typename Options>
  void section(std::string key, Options& options, std::string help);

  /// Describes a list of options structs.
  template <typename Options>
  void list(std::string key, std::vector<Options>& members, std::string help);

  /// Describes the choice of a kind from a registry. Reading another kind replaces `chosen` with
  /// default options of that kind, whose keys then belong to this schema. If `chosen` is empty, the
  /// user must choose.
  template <typename Options>
  void variant(std::string key, Chosen<Options>& chosen, const Registry<Options>& registry,
               std::string help);

  void check(std::string key, std::function<void()> run);

  /// Takes the defaults from the schema of another instance of the described struct.
  void take_defaults(const Schema& unset);

  /// Returns the described entries in order.
  std::deque<OptionEntry>& described() { return entries_; }
  const std::deque<OptionEntry>& described() const { return entries_; }
  const std::vector<Check>& checks() const { return checks_; }

  /// Returns the described entries, with those of the current kind after each variant. Throws Error
  /// if two have the same key.
  std::vector<const OptionEntry*> entries() const;
  const OptionEntry* find(std::string_view key) const;  // null if there is none

 private:
  template <typename Entry>
  Entry& add(Entry entry) {
    return std::get<Entry>(append(std::move(entry)));
  }
  OptionEntry& append(OptionEntry entry);

  std::deque<OptionEntry> entries_;
  std::vector<Check> checks_;
};

/// Returns the schema of an options struct.
template <typename Options>
std::unique_ptr<Schema> describe(Options& options) {
  auto schema = std::make_unique<Schema>();
  options.describe(*schema);
  return schema;
}

/// Returns the schema of an options struct that may have been changed: the defaults are those of a
/// new struct.
template <typename Options>
std::unique_ptr<Schema> describe_filled(Options& options) {
  Options unset;
  auto schema = describe(options);
  schema->take_defaults(*describe(unset));
  return schema;
}

/// Returns these default options with their schema.
template <typename Options>
OptionPreview preview_options(std::shared_ptr<Options> options) {
  std::unique_ptr<Schema> schema = describe(*options);
  return {std::move(options), std::move(schema)};
}

}  // namespace mobius

#include "core/options/schema_inl.h"
