// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names of the error codes.
#include "runtime/base/Status.h"

namespace sluice {

const char *codeName(Code code) {
  switch (code) {
  case Code::Ok: return "ok";
  case Code::InvalidArgument: return "invalid_argument";
  case Code::NotFound: return "not_found";
  case Code::OutOfMemory: return "out_of_memory";
  case Code::Capacity: return "capacity";
  case Code::Cancelled: return "cancelled";
  case Code::Deadline: return "deadline";
  case Code::Corrupt: return "corrupt";
  case Code::Unsupported: return "unsupported";
  case Code::Internal: return "internal";
  }
  return "internal";
}

} // namespace sluice
