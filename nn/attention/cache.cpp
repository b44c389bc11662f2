#include "nn/attention/cache.h"

#include <algorithm>

#include "nn/attention/weights.h"

namespace mobius {

void GrowingRows::append(const Tensor& rows) {
  const std::int64_t total = n_ + rows.size(-2);
  if (!memory_.defined() || total > memory_.size(-2)) {
    Shape shape = rows.shape();
    shape[shape.size() - 2] = std::max(total, 2 * n_);
    Tensor larger = Tensor::empty(std::move(shape), rows.dtype(), rows.device());
    if (n_ > 0) larger.slice(-2, 0, n_).copy_from(all());
    memory_ = std::move(larger);
  }
  memory_.slice(-2, n_, total).copy_from(rows);
  n_ = total;
}

Variable InputCache::append(const Variable& x) {
  inputs_.append(x.data());
  length_ += x.size(1);
  return Variable(inputs_.all());
}

void KeyValueCache::append(const Variable& k, const Variable& v) {
  keys_.append(k.data());
  values_.append(v.data());
  length_ += k.size(-2);
}

Variable MomentCache::attend(const Variable& q, const Variable& k, const Variable& v, double eps) {
  const std::int64_t n_heads = q.size(1), n_new = k.size(2);
  const Variable among_new = masked_products(q, k, {.causal = true});
  Variable weighted = apply_weights(among_new, v);
  Variable total = sum(among_new, {-1}, /*keepdim=*/true);
  if (length_ > 0) {
    weighted = weighted + matmul(q, for_every_head(Variable(moments_), n_heads));
    total = total + matmul(q, for_every_head(Variable(sums_), n_heads));
  }

  const Tensor columns = k.data().transpose(-1, -2);
  const Tensor moments = matmul(columns, v.data()), sums = sum(columns, {-1}, /*keepdim=*/true);
  moments_ = length_ > 0 ? add(moments_, moments) : moments;
  sums_ = length_ > 0 ? add(sums_, sums) : sums;
  length_ += n_new;
  return weighted / affine(total, 1, eps);
}

}  // namespace mobius
