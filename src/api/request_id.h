// Ids of requests, and random numbers for those that bring no seed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace erne {

// 64 bits from the system's random source.
uint64_t RandomBits();

// 32 hexadecimal digits.
std::string RandomId();

// Of a call of a tool: nine letters and digits, which is what Mistral's templates take, and enough
// for the calls of one conversation.
std::string ToolCallId();

// Whether a client's own id may be used: 1 to 128 characters out of letters, digits, '-', '_', '.'
// and ':'.
bool IsUsableId(std::string_view id);

}  // namespace erne
