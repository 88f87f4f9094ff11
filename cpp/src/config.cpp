#include "tabgpt/config.hpp"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "tabgpt/error.hpp"
#include "tabgpt/fields.inc"

namespace tabgpt {
namespace {

using ull = unsigned long long;

enum class Kind { whole, real, activation, schedule };

/** One field: its name, what it holds, its range, and the member that holds it. */
struct Field {
  const char* name;
  Kind kind;
  double low = 0, high = 0;
  bool low_open = false, high_open = false;  ///< the limit itself is out of range
  const char* choices = "";                  ///< "a|b", in the enumeration's order
  uint64_t Config::* whole = nullptr;
  double Config::* real = nullptr;
};

constexpr Kind kind_of(Activation Config::*) { return Kind::activation; }
constexpr Kind kind_of(Schedule Config::*) { return Kind::schedule; }

#define TABGPT_INT(name, low, low_open, high, high_open) \
  Field{#name, Kind::whole, double(low), double(high), low_open, high_open, "", &Config::name, nullptr},
#define TABGPT_FLOAT(name, low, low_open, high, high_open) \
  Field{#name, Kind::real, double(low), double(high), low_open, high_open, "", nullptr, &Config::name},
#define TABGPT_CHOICE(name, choices) \
  Field{#name, kind_of(&Config::name), 0, 0, false, false, choices, nullptr, nullptr},

/** vocab_size belongs to the corpus, not to presets.json; float32 counts ids exactly up to 2^24. */
constexpr Field kFields[] = {TABGPT_INT(vocab_size, 1, false, 1 << 24, false) TABGPT_FIELDS};
constexpr size_t kFieldCount = sizeof kFields / sizeof kFields[0];
static_assert(kFieldCount <= 64, "set_mask has 64 bits");

constexpr const Field* find(std::string_view name) {
  for (const Field& field : kFields) {
    if (name == field.name) return &field;
  }
  return nullptr;
}
static_assert(find("activation")->choices == std::string_view("gelu_tanh|gelu_erf"),
              "enum Activation's order");
static_assert(find("schedule")->choices == std::string_view("cosine|constant"), "enum Schedule's order");

/** Index of `value` in "a|b|c", or -1. */
int choice_index(std::string_view choices, std::string_view value) {
  for (int index = 0; !choices.empty(); ++index) {
    const size_t bar = choices.find('|');
    if (choices.substr(0, bar) == value) return index;
    choices = bar == std::string_view::npos ? "" : choices.substr(bar + 1);
  }
  return -1;
}

const Field* find_or_fail(const char* key) {
  if (key == nullptr) return fail("the config key is a null pointer; pass a field's name"), nullptr;
  const Field* field = find(key);
  if (field == nullptr) {
    fail(
        "unknown config key '%.100s'; the known ones are presets.json's groups model and train, and "
        "vocab_size",
        key);
  }
  return field;
}

/** "at least 0 and below 1" */
struct Range {
  char text[80];
  explicit Range(const Field& field) {
    std::snprintf(text, sizeof text, "%s %.10g and %s %.10g", field.low_open ? "above" : "at least",
                  field.low, field.high_open ? "below" : "at most", field.high);
  }
};

bool fail_range(const Field& field, double value) {
  const char* kind = field.kind == Kind::whole ? "a whole number, " : "";
  return fail("%s is %.12g; it must be %s%s", field.name, value, kind, Range(field).text);
}

}  // namespace

size_t Config::field_count() { return kFieldCount; }

const char* Config::field_name(size_t index) { return index < kFieldCount ? kFields[index].name : nullptr; }

bool Config::set(const char* key, double value) {
  const Field* field = find_or_fail(key);
  if (field == nullptr) return false;
  if (field->kind != Kind::whole && field->kind != Kind::real) {
    return fail("%s is a choice, not the number %g; set it to one of %s", field->name, value, field->choices);
  }
  const bool fraction = field->kind == Kind::whole && value != std::floor(value);
  const bool too_low = field->low_open ? value <= field->low : value < field->low;
  const bool too_high = field->high_open ? value >= field->high : value > field->high;
  if (std::isnan(value) || fraction || too_low || too_high) return fail_range(*field, value);
  if (field->kind == Kind::whole) {
    this->*field->whole = static_cast<uint64_t>(value);
  } else {
    this->*field->real = value;
  }
  set_mask |= uint64_t{1} << (field - kFields);
  return true;
}

bool Config::set_choice(const char* key, const char* value) {
  const Field* field = find_or_fail(key);
  if (field == nullptr) return false;
  if (field->kind == Kind::whole || field->kind == Kind::real) {
    return fail("%s is a number, not the text '%.100s'; it must be %s", field->name,
                value == nullptr ? "" : value, Range(*field).text);
  }
  const int index = value == nullptr ? -1 : choice_index(field->choices, value);
  if (index < 0) {
    return fail("%s is '%.100s'; it must be one of %s", field->name, value == nullptr ? "" : value,
                field->choices);
  }
  if (field->kind == Kind::activation) activation = static_cast<Activation>(index);
  if (field->kind == Kind::schedule) schedule = static_cast<Schedule>(index);
  set_mask |= uint64_t{1} << (field - kFields);
  return true;
}

bool Config::check() const {
  for (size_t i = 0; i < kFieldCount; ++i) {
    if ((set_mask >> i & 1) == 0) {
      return fail("%s was not set; set every field (presets.json has the defaults)", kFields[i].name);
    }
  }
  if (d_model % n_head != 0) {
    return fail("d_model is %llu and n_head is %llu; n_head must divide d_model", ull(d_model), ull(n_head));
  }
  if (head_dim() > TABGPT_MAX_HEAD_DIM) {
    return fail("d_model / n_head is %llu channels a head; at most %d: use %llu heads or more",
                ull(head_dim()), TABGPT_MAX_HEAD_DIM,
                ull((d_model + TABGPT_MAX_HEAD_DIM - 1) / TABGPT_MAX_HEAD_DIM));
  }
  // So that every byte count of the plan stays below 2^63.
  if (max_rows() > (uint64_t{1} << 28)) {
    return fail("batch_size x ctx is %llu tokens; at most 268435456: lower batch_size and raise grad_accum",
                ull(max_rows()));
  }
  return true;
}

}  // namespace tabgpt
