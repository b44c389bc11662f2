// The templates of core/options/schema.h: how member types become OptionValues.
#pragma once

#include "core/options/schema.h"

namespace mobius {

template <>
struct OptionCodec<bool> {
  using Stored = bool;
  static constexpr OptionForm form{OptionType::boolean};
};

template <std::integral T>
struct OptionCodec<T> {
  using Stored = std::int64_t;
  static constexpr OptionForm form{
      .type = OptionType::integer,
      .smallest = std::in_range<std::int64_t>(std::numeric_limits<T>::min())
                      ? static_cast<std::int64_t>(std::numeric_limits<T>::min())
                      : std::numeric_limits<std::int64_t>::min(),
      .largest = std::in_range<std::int64_t>(std::numeric_limits<T>::max())
                     ? static_cast<std::int64_t>(std::numeric_limits<T>::max())
                     : std::numeric_limits<std::int64_t>::max()};
};

template <>
struct OptionCodec<double> {
  using Stored = double;
  static constexpr OptionForm form{OptionType::number};
};

template <>
struct OptionCodec<std::string> {
  using Stored = std::string;
  static constexpr OptionForm form{OptionType::text};
};

template <typename T>
struct OptionCodec<std::vector<T>> {
  using Stored = std::vector<typename OptionCodec<T>::Stored>;
  static constexpr OptionForm form = [] {
    OptionForm list = OptionCodec<T>::form;
    list.is_list = true;
    return list;
  }();
};

template <typename T>
struct OptionCodec<std::optional<T>> {
  using Stored = typename OptionCodec<T>::Stored;
  static constexpr OptionForm form = [] {
    OptionForm nullable = OptionCodec<T>::form;
    nullable.is_nullable = true;
    return nullable;
  }();
};

namespace schema_detail {

template <typename T>
OptionValue encode(const T& member) {
  return static_cast<typename OptionCodec<T>::Stored>(member);
}

template <typename T>
OptionValue encode(const std::vector<T>& member) {
  return typename OptionCodec<std::vector<T>>::Stored(member.begin(), member.end());
}

template <typename T>
OptionValue encode(const std::optional<T>& member) {
  return member ? encode(*member) : OptionValue{};
}

template <typename T>
void decode(const OptionValue& value, T& member) {
  member = static_cast<T>(std::get<typename OptionCodec<T>::Stored>(value));
}

template <typename T>
void decode(const OptionValue& value, std::vector<T>& member) {
  const auto& stored = std::get<typename OptionCodec<std::vector<T>>::Stored>(value);
  member.clear();
  for (const auto& element : stored) member.push_back(static_cast<T>(element));
}

template <typename T>
void decode(const OptionValue& value, std::optional<T>& member) {
  if (std::holds_alternative<std::monostate>(value)) {
    member.reset();
  } else {
    decode(value, member.emplace());
  }
}

}  // namespace schema_detail

template <typename T>
OptionField& Schema::field(std::string key, T& member, std::string help) {
  return add(OptionField(
      std::move(key), std::move(help), OptionCodec<T>::form,
      [&member] { return schema_detail::encode(member); },
      [&member](const OptionValue& value) { schema_detail::decode(value, member); }));
}

template <typename T>
OptionField& Schema::choice(std::string key, T& member,
                            std::type_identity_t<std::vector<std::pair<std::string, T>>> names,
                            std::string help) {
  std::vector<std::string> choices;
  for (const auto& [name, value] : names) choices.push_back(name);
  // A value without a name shows as the empty text.
  const auto get = [&member, names]() -> OptionValue {
    for (const auto& [name, value] : names)
      if (value == member) return name;
    return std::string();
  };
  const auto set = [&member, names](const OptionValue& text) {
    for (const auto& [name, value] : names)
      if (name == std::get<std::string>(text)) member = value;
  };
  return add(OptionField(std::move(key), std::move(help), {OptionType::text}, get, set))
      .one_of(std::move(choices));
}

template <typename Options>
void Schema::section(std::string key, Options& options, std::string help) {
  options.describe(section(std::move(key), std::move(help)));
}

template <typename Options>
void Schema::list(std::string key, std::vector<Options>& members, std::string help) {
  OptionList list(std::move(key), std::move(help));
  list.size_ = [&members] { return members.size(); };
  list.reset_ = [&members](std::size_t size) {
    members.clear();
    members.resize(size);
  };
  list.element_ = [&members](std::size_t index) { return describe_filled(members.at(index)); };
  list.preview_ = [] { return preview_options(std::make_shared<Options>()); };
  add(std::move(list));
}

template <typename Options>
void Schema::variant(std::string key, Chosen<Options>& chosen, const Registry<Options>& registry,
                     std::string help) {
  OptionVariant variant(std::move(key), std::move(help));
  for (const auto& kind : registry.kinds()) variant.kinds_.push_back({kind.name, kind.help});
  variant.initial_ = chosen.name;
  variant.current_ = [&chosen] { return chosen.name; };
  variant.choose_ = [&chosen, &registry](std::string_view name) {
    chosen = registry.choose(name);
    return mobius::describe(*chosen);
  };
  variant.preview_ = [&registry](std::string_view name) {
    return preview_options(std::shared_ptr<Options>(registry.choose(name).options));
  };
  variant.active_ = chosen ? mobius::describe(*chosen) : std::make_unique<Schema>();
  add(std::move(variant));
}

}  // namespace mobius
