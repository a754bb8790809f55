// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Status and Result<T>: how runtime code reports errors. Nothing in the runtime throws.
// First in the flow: every other room of the runtime may use this one.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace sluice {

/// What went wrong. The comment says when, and whether the caller may try again.
enum class Code {
  Ok,
  InvalidArgument, ///< the caller's input is wrong; trying again gives the same
  NotFound,        ///< a named thing does not exist
  OutOfMemory,     ///< the machine has not enough memory; fewer or smaller requests may pass
  Capacity,        ///< a stated limit is reached now; try later
  Cancelled,       ///< the caller asked for it
  Deadline,        ///< the time allowed ran out
  Corrupt,         ///< a file's bytes contradict its hashes or its own structure; replace the file
  Unsupported,     ///< understood, but not on this machine or in this version; the message names the remedy
  Internal,        ///< our fault
};

/// The lower-case name of a code, for logs and JSON ("invalid_argument").
const char *codeName(Code code);

class [[nodiscard]] Status {
public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  static Status ok() { return {}; }
  explicit operator bool() const { return code_ == Code::Ok; }
  Code code() const { return code_; }
  /// One line: what is wrong, what was found, what was expected, what to do. Empty when ok.
  const std::string &message() const { return message_; }

private:
  Code code_ = Code::Ok;
  std::string message_;
};

inline Status invalidArgument(std::string m) { return {Code::InvalidArgument, std::move(m)}; }
inline Status notFound(std::string m) { return {Code::NotFound, std::move(m)}; }
inline Status outOfMemory(std::string m) { return {Code::OutOfMemory, std::move(m)}; }
inline Status capacityReached(std::string m) { return {Code::Capacity, std::move(m)}; }
inline Status corrupt(std::string m) { return {Code::Corrupt, std::move(m)}; }
inline Status unsupported(std::string m) { return {Code::Unsupported, std::move(m)}; }
inline Status internalError(std::string m) { return {Code::Internal, std::move(m)}; }

/// A value or a Status that is not ok; the member names follow std::expected.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) {
    if (status_) { // a Result made from "ok" has no value to give: our own bug
      status_ = internalError("Result made from an ok Status");
    }
  }
  bool has_value() const { return value_.has_value(); }
  explicit operator bool() const { return has_value(); }
  T &value() { return *value_; }
  const T &value() const { return *value_; }
  T &operator*() { return *value_; }
  const T &operator*() const { return *value_; }
  T *operator->() { return &*value_; }
  const T *operator->() const { return &*value_; }
  const Status &error() const { return status_; }

private:
  std::optional<T> value_;
  Status status_;
};

/// Returns from the enclosing function when the expression's Status is not ok.
#define SLUICE_RETURN_IF_ERROR(expr)                                                               \
  do {                                                                                             \
    if (::sluice::Status sluiceStatus = (expr); !sluiceStatus) {                                   \
      return sluiceStatus;                                                                         \
    }                                                                                              \
  } while (false)

} // namespace sluice
