// Who in this process has claimed how much memory. The system promises memory that it does not
// have, and what one model has planned and not yet touched looks free to the next: so models claim
// what they plan here before they take it, and plan with what is left.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <string>

#include "base/status.h"

namespace erne {

// Thread-safe; outlives its reservations.
class MemoryLedger {
 private:
  struct Claim {
    std::string name;
    uint64_t bytes = 0;
  };

 public:
  // A claim, given back when this is destroyed. Movable; may be empty. One thread at a time.
  class Reservation {
   public:
    Reservation() = default;
    Reservation(Reservation&& other) noexcept;
    Reservation& operator=(Reservation&& other) noexcept;
    ~Reservation() { GiveBack(); }

    uint64_t bytes() const;
    // Corrects the claim to what was really taken. Also beyond the cap: it is taken already.
    void Correct(uint64_t bytes);
    void GiveBack();

   private:
    friend class MemoryLedger;
    MemoryLedger* ledger_ = nullptr;
    std::list<Claim>::iterator claim_ = {};
  };

  // What a plan may count on.
  struct Left {
    uint64_t bytes = 0;
    std::string holders;  // "3.1 GiB are taken by a, 0.2 GiB by b"; empty when nobody has any
  };
  // The bytes that are needed with so many left; an error when they do not suffice.
  using Plan = std::function<Result<uint64_t>(const Left&)>;

  // The ledger that all models of this process share.
  static MemoryLedger& Process();

  // Without a cap of its own, a ledger takes the one that comes with the first reservation of an
  // idle ledger: only then does the machine's free memory say what there is to share.
  MemoryLedger() = default;
  explicit MemoryLedger(uint64_t cap) : cap_(cap), has_own_cap_(true) {}
  MemoryLedger(const MemoryLedger&) = delete;
  MemoryLedger& operator=(const MemoryLedger&) = delete;
  ~MemoryLedger();

  // Asks `plan`, and claims what it says for `name`. Nobody else claims in between. `cap`: see the
  // constructor. ResourceExhausted when the plan wants more than is left; else the errors of
  // `plan`, which must not call the ledger.
  Result<Reservation> Reserve(const std::string& name, uint64_t cap, const Plan& plan);

  uint64_t cap() const;
  uint64_t reserved() const;

 private:
  uint64_t ReservedLocked() const;
  Left LeftLocked() const;

  mutable std::mutex mutex_;
  uint64_t cap_ = 0;
  const bool has_own_cap_ = false;
  std::list<Claim> claims_;  // in order of arrival
};

}  // namespace erne
