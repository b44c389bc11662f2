#include "data/task.h"

#include <algorithm>

#include "core/error.h"
#include "core/rng.h"

namespace mobius {

std::string_view name_of(Split split) { return split == Split::train ? "train" : "test"; }

Batch Task::batch(Split split, std::uint64_t step, std::int64_t batch_size) const {
  if (batch_size <= 0) throw Error("task: the batch size must be positive, got {}", batch_size);
  const auto size = static_cast<std::uint64_t>(batch_size);
  if (split == Split::train) return sequences(split, group_at(step), step * size, batch_size);

  const std::uint64_t batches = test_batches(batch_size);
  if (step >= batches)
    throw Error("task: test batch {} requested, but there are only {}", step, batches);
  const std::uint64_t per_group = batches / groups().size();
  const std::uint64_t first = step % per_group * size;
  const auto left = test_size() - static_cast<std::int64_t>(first);
  return sequences(split, static_cast<int>(step / per_group), first, std::min(batch_size, left));
}

std::uint64_t Task::test_batches(std::int64_t batch_size) const {
  if (batch_size <= 0) throw Error("task: the batch size must be positive, got {}", batch_size);
  const auto per_group = static_cast<std::uint64_t>((test_size() - 1) / batch_size + 1);
  return per_group * groups().size();
}

std::uint64_t Task::sequence_stream(std::string_view task, std::uint64_t size, Split split,
                                    std::uint64_t index) {
  return stream_id(task, size, 2 * index + (split == Split::test ? 1 : 0));
}

void Task::check_request(int group, std::int64_t count) const {
  if (group < 0 || static_cast<std::size_t>(group) >= groups().size())
    throw Error("task: group {} requested, but there are only {}", group, groups().size());
  if (count <= 0) throw Error("task: the number of sequences must be positive, got {}", count);
}

}  // namespace mobius
