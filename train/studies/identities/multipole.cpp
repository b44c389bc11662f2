#include "train/studies/identities/multipole.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace mobius::identities {

namespace {

// The values r^l C_l(u) of one u, degree by degree.
template <class T>
class Terms {
 public:
  Terms(const T& lambda, const T& r, const T& u) : lambda_(lambda), r_(r), u_(u) {}

  const T& value() const { return now_; }
  void advance() {
    const T next =
        r_ * (2 * (l_ + lambda_) * u_ * now_ - r_ * (l_ + 2 * lambda_ - 1) * before_) / (l_ + 1);
    before_ = now_;
    now_ = next;
    ++l_;
  }

 private:
  T lambda_, r_, u_;
  T before_ = 0, now_ = 1;
  int l_ = 0;
};

// A cosine with its terms, and what the degrees so far leave of the kernel.
struct Remainder {
  Terms<Real> terms;
  Real rest;
};

std::vector<Remainder> remainders(const Real& lambda, const Real& r) {
  constexpr int n = 32;
  std::vector<Remainder> all;
  for (int i = 0; i <= n; ++i) {
    const Real u = Real(n - 2 * i) / n;  // from 1 to -1
    all.push_back({{lambda, r, u}, pow(Real(1 + r * r - 2 * r * u), Real(-lambda))});
  }
  return all;
}

double f64_error_at_minus_one(double lambda, double r, std::size_t n_degrees) {
  Terms<double> terms(lambda, r, -1);
  double sum = 0;
  for (std::size_t l = 0; l < n_degrees; ++l, terms.advance()) sum += terms.value();
  const double exact = std::pow(1 + r, -2 * lambda);
  return std::abs(sum - exact) / exact;
}

}  // namespace

std::int64_t Multipole::degrees_for(double share) const {
  return std::find_if(errors.begin(), errors.end(), [&](double e) { return e <= share; }) -
         errors.begin();
}

Multipole multipole(std::int64_t d, double r) {
  if (d < 3 || !(r > 0 && r < 1))
    throw Error("multipole: expected d > 2 and r in (0, 1), got d = {}, r = {}", d, r);
  const Real lambda = Real(d - 2) / 2;
  Multipole result{.d = d, .r = r};
  result.predicted_hump =
      std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(r * double(d - 3) / (1 - r))));
  std::vector<Remainder> all = remainders(lambda, r);
  const Real whole = all.front().rest;
  while (true) {
    Real largest = 0;
    for (const Remainder& at : all) largest = std::max(largest, Real(abs(at.rest)));
    const Real at_one = abs(all.front().rest);
    if (largest > at_one * (1 + Real(1e-20))) result.is_worst_at_one = false;
    result.errors.push_back(static_cast<double>(largest / whole));
    if (result.errors.back() < 1e-12) break;
    result.terms.push_back(static_cast<double>(all.front().terms.value() / whole));
    for (auto& [terms, rest] : all) {
      rest -= terms.value();
      terms.advance();
    }
  }
  result.hump = std::max_element(result.terms.begin(), result.terms.end()) - result.terms.begin();
  result.f64_error = f64_error_at_minus_one(double(d - 2) / 2, r, result.terms.size());
  return result;
}

double falling_rate(std::int64_t d, double r, std::int64_t l) {
  // Terms relative to t_l, up to those that no longer count.
  Real term = 1, sum = 0;
  for (std::int64_t i = l; term > sum * Real(1e-30); ++i) {
    sum += term;
    term *= Real(r) * (d - 2 + i) / (i + 1);
  }
  return static_cast<double>((sum - 1) / sum);
}

}  // namespace mobius::identities
