// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds values from the parser's events: in order, without a second copy, within the render's
// limits.
#include "runtime/tokenizer/TemplateJson.h"

#include "runtime/tokenizer/TemplateFilters.h"

#include <limits>
#include <nlohmann/json.hpp>

namespace sluice {

namespace {

/// The names of the functions are those of nlohmann::json_sax.
class ValueBuilder : public nlohmann::json_sax<nlohmann::json> {
public:
  explicit ValueBuilder(TemplateRuntime &runtime) : runtime_(runtime) {}
  const Value &result() const { return result_; }

  bool null() override { return put(Value::none()); }
  bool boolean(bool value) override { return put(Value::ofBool(value)); }
  bool number_integer(int64_t value) override { return put(Value::ofInt(value)); }
  bool number_unsigned(uint64_t value) override {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      runtime_.fail("an integer of the variables does not fit 64 bits");
      return false;
    }
    return put(Value::ofInt(static_cast<int64_t>(value)));
  }
  bool number_float(double value, const std::string &) override {
    return put(Value::ofFloat(value));
  }
  bool string(std::string &value) override { return put(runtime_.makeText(std::move(value))); }
  bool binary(nlohmann::json::binary_t &) override { return false; }
  bool start_object(size_t) override { return open(true); }
  bool start_array(size_t) override { return open(false); }
  bool key(std::string &name) override {
    open_.back().key = runtime_.makeText(std::move(name));
    return !runtime_.failed();
  }
  bool end_object() override {
    const Value value = runtime_.makeDict(std::move(open_.back().dict.entries));
    open_.pop_back();
    return put(value);
  }
  bool end_array() override {
    const Value value = runtime_.makeList(std::move(open_.back().items));
    open_.pop_back();
    return put(value);
  }
  bool parse_error(size_t, const std::string &, const nlohmann::detail::exception &) override {
    return false;
  }

private:
  struct Open {
    bool isObject;
    Value key;
    std::vector<Value> items;
    DictValue dict;
  };

  bool open(bool isObject) {
    if (open_.size() >= static_cast<size_t>(kMaxValueDepth)) {
      runtime_.failLimit("the variables nest deeper than " + std::to_string(kMaxValueDepth) +
                         " levels");
      return false;
    }
    open_.push_back({isObject, {}, {}, {}});
    return true;
  }

  bool put(const Value &value) {
    if (runtime_.failed() || !runtime_.spend(1) || !runtime_.reserve(sizeof(Value))) {
      return false;
    }
    if (open_.empty()) {
      result_ = value;
    } else if (open_.back().isObject) {
      setKey(runtime_, open_.back().dict, open_.back().key, value);
    } else {
      open_.back().items.push_back(value);
    }
    return !runtime_.failed();
  }

  TemplateRuntime &runtime_;
  std::vector<Open> open_;
  Value result_;
};

} // namespace

Value valueFromJson(TemplateRuntime &runtime, std::string_view text) {
  ValueBuilder builder(runtime);
  const bool parsed = nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  if (!parsed) {
    return runtime.fail("the chat template's variables are not JSON");
  }
  return builder.result();
}

} // namespace sluice
