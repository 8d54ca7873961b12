#include "base/memory_ledger.h"

#include <utility>
#include <vector>

#include "base/check.h"
#include "base/strings.h"

namespace erne {

MemoryLedger::Reservation::Reservation(Reservation&& other) noexcept
    : ledger_(std::exchange(other.ledger_, nullptr)), claim_(other.claim_) {}

MemoryLedger::Reservation& MemoryLedger::Reservation::operator=(Reservation&& other) noexcept {
  if (this == &other) return *this;
  GiveBack();
  ledger_ = std::exchange(other.ledger_, nullptr);
  claim_ = other.claim_;
  return *this;
}

uint64_t MemoryLedger::Reservation::bytes() const {
  if (ledger_ == nullptr) return 0;
  const std::lock_guard lock(ledger_->mutex_);
  return claim_->bytes;
}

void MemoryLedger::Reservation::Correct(uint64_t bytes) {
  ERNE_CHECK(ledger_ != nullptr);
  const std::lock_guard lock(ledger_->mutex_);
  claim_->bytes = bytes;
}

void MemoryLedger::Reservation::GiveBack() {
  if (ledger_ == nullptr) return;
  const std::lock_guard lock(ledger_->mutex_);
  ledger_->claims_.erase(claim_);
  ledger_ = nullptr;
}

MemoryLedger& MemoryLedger::Process() {
  static MemoryLedger ledger;
  return ledger;
}

MemoryLedger::~MemoryLedger() { ERNE_DCHECK(claims_.empty()) << "a reservation is still held"; }

Result<MemoryLedger::Reservation> MemoryLedger::Reserve(const std::string& name, uint64_t cap,
                                                        const Plan& plan) {
  const std::lock_guard lock(mutex_);
  if (claims_.empty() && !has_own_cap_) cap_ = cap;
  const Left left = LeftLocked();
  ERNE_ASSIGN_OR_RETURN(const uint64_t bytes, plan(left));
  if (bytes > left.bytes) {
    return ResourceExhausted(StrCat(name, " needs ", FormatBytes(bytes), " of memory, ",
                                    FormatBytes(left.bytes), " of ", FormatBytes(cap_), " are left",
                                    left.holders.empty() ? "" : ": ", left.holders));
  }
  Reservation reservation;
  reservation.claim_ = claims_.insert(claims_.end(), {name, bytes});
  reservation.ledger_ = this;
  return reservation;
}

uint64_t MemoryLedger::cap() const {
  const std::lock_guard lock(mutex_);
  return cap_;
}

uint64_t MemoryLedger::reserved() const {
  const std::lock_guard lock(mutex_);
  return ReservedLocked();
}

uint64_t MemoryLedger::ReservedLocked() const {
  uint64_t total = 0;
  for (const Claim& claim : claims_) total += claim.bytes;
  return total;
}

MemoryLedger::Left MemoryLedger::LeftLocked() const {
  const uint64_t reserved = ReservedLocked();
  std::vector<std::string> holders;
  for (const Claim& claim : claims_) {
    holders.push_back(StrCat(FormatBytes(claim.bytes), " are taken by ", claim.name));
  }
  return {cap_ > reserved ? cap_ - reserved : 0, Join(holders, ", ")};
}

}  // namespace erne
