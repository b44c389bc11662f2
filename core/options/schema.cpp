#include "core/options/schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/error.h"
#include "core/options/nearest.h"

namespace mobius {
namespace {

std::string_view type_text(OptionType type) {
  switch (type) {
    case OptionType::boolean:
      return "boolean";
    case OptionType::integer:
      return "integer";
    case OptionType::number:
      return "number";
    case OptionType::text:
      return "text";
  }
  throw Error("schema: unknown option type");
}

}  // namespace

OptionField::OptionField(std::string key, std::string help, OptionForm form, Get get, Set set)
    : OptionKey(std::move(key), std::move(help)),
      form_(form),
      get_(std::move(get)),
      set_(std::move(set)),
      initial_(get_()) {}

OptionField& OptionField::one_of(std::vector<std::string> choices) {
  if (form_.type != OptionType::text) throw Error("schema: '{}' is not a text", key());
  choices_ = std::move(choices);
  return *this;
}

OptionField& OptionField::required() {
  is_required_ = true;
  return *this;
}

OptionField& OptionField::unbounded() {
  if (form_.type != OptionType::integer) throw Error("schema: '{}' is not an integer", key());
  is_unbounded_ = true;
  return *this;
}

OptionField& OptionField::only_if(std::function<bool()> condition, std::string when) {
  condition_ = std::move(condition);
  when_ = std::move(when);
  return *this;
}

OptionField& OptionField::bound(std::optional<Bound>& side, Bound bound) {
  if (form_.type != OptionType::integer && form_.type != OptionType::number)
    throw Error("schema: '{}' is not a number", key());
  side = bound;
  return *this;
}

std::string OptionField::type_name() const {
  return fmt::format("{}{}{}{}", form_.is_list ? "list of " : "", type_text(form_.type),
                     form_.is_list ? "s" : "", form_.is_nullable ? " or null" : "");
}

std::string OptionField::range() const {
  if (!choices_.empty()) return fmt::format("{}", fmt::join(choices_, " | "));
  if (lower_ && upper_) {
    return fmt::format("in {}{}, {}{}", lower_->inclusive ? '[' : '(', lower_->value, upper_->value,
                       upper_->inclusive ? ']' : ')');
  }
  if (lower_) return fmt::format("{} {}", lower_->inclusive ? ">=" : ">", lower_->value);
  if (upper_) return fmt::format("{} {}", upper_->inclusive ? "<=" : "<", upper_->value);
  return "";
}

void OptionField::assign(const OptionValue& value) const {
  verify(value);
  set_(value);
}

void OptionField::verify(const OptionValue& value) const {
  if (std::holds_alternative<std::monostate>(value)) {
    if (!form_.is_nullable) throw ConfigError("expected {}, got null", type_name());
    return;
  }
  std::visit([this](const auto& held) { verify_held(held); }, value);
}

void OptionField::require_effect() const {
  if (condition_ && !condition_() && value() != initial_)
    throw ConfigError("has no effect unless {}", when_);
}

template <typename T>
void OptionField::verify_held(const std::vector<T>& list) const {
  for (const T& element : list) verify_held(element);
}

void OptionField::verify_held(std::int64_t value) const {
  if (value < form_.smallest || value > form_.largest) {
    throw ConfigError("must be in [{}, {}], got {}", form_.smallest, form_.largest, value);
  }
  if (!contains(static_cast<double>(value))) {
    throw ConfigError("must be {}, got {}", range(), value);
  }
  if (lower_ && !is_unbounded_ && value > largest_count)
    throw ConfigError("must be at most {}, got {}", largest_count, value);
}

void OptionField::verify_held(double value) const {
  if (!std::isfinite(value)) throw ConfigError("must be finite, got {}", value);
  if (!contains(value)) throw ConfigError("must be {}, got {}", range(), value);
}

void OptionField::verify_held(const std::string& value) const {
  if (choices_.empty() || std::find(choices_.begin(), choices_.end(), value) != choices_.end()) {
    return;
  }
  throw ConfigError("unknown choice '{}'; {}", value, suggest_name(value, choices_));
}

bool OptionField::contains(double value) const {
  const bool above =
      !lower_ || value > lower_->value || (lower_->inclusive && value == lower_->value);
  const bool below =
      !upper_ || value < upper_->value || (upper_->inclusive && value == upper_->value);
  return above && below;
}

void OptionVariant::choose(std::string_view name) {
  if (name != current()) active_ = choose_(name);
}

const std::string& key_of(const OptionEntry& entry) {
  return std::visit([](const OptionKey& held) -> const std::string& { return held.key(); }, entry);
}

Schema::Schema() = default;
Schema::Schema(Schema&&) noexcept = default;
Schema& Schema::operator=(Schema&&) noexcept = default;
Schema::~Schema() = default;

Schema& Schema::section(std::string key, std::string help) {
  OptionSection section(std::move(key), std::move(help));
  section.schema_ = std::make_unique<Schema>();
  return add(std::move(section)).schema();
}

void Schema::check(std::string key, std::function<void()> run) {
  checks_.push_back({std::move(key), std::move(run)});
}

void Schema::take_defaults(const Schema& unset) {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (auto* field = std::get_if<OptionField>(&entries_[i])) {
      field->initial_ = std::get<OptionField>(unset.entries_.at(i)).initial_;
    } else if (auto* section = std::get_if<OptionSection>(&entries_[i])) {
      section->schema().take_defaults(std::get<OptionSection>(unset.entries_.at(i)).schema());
    }
  }
}

OptionEntry& Schema::append(OptionEntry entry) {
  entries_.push_back(std::move(entry));
  entries();  // refuses a key described twice
  return entries_.back();
}

std::vector<const OptionEntry*> Schema::entries() const {
  std::vector<const OptionEntry*> entries;
  for (const OptionEntry& entry : entries_) {
    entries.push_back(&entry);
    if (const auto* variant = std::get_if<OptionVariant>(&entry)) {
      const std::vector<const OptionEntry*> active = variant->active().entries();
      entries.insert(entries.end(), active.begin(), active.end());
    }
  }
  std::set<std::string_view> keys;
  for (const OptionEntry* entry : entries)
    if (!keys.insert(key_of(*entry)).second)
      throw Error("schema: key '{}' is described twice", key_of(*entry));
  return entries;
}

const OptionEntry* Schema::find(std::string_view key) const {
  for (const OptionEntry* entry : entries()) {
    if (key_of(*entry) == key) return entry;
  }
  return nullptr;
}

}  // namespace mobius
