// Simulated annealing of a quadratic assignment (Burkard and Rendl, 1984): two items change places, at the cost
// of their own edges. Half of the proposals bring an item to the class of one that it is joined to.
#include "search/arrangement.hpp"

#include <algorithm>
#include <cmath>

#include "routes/random.hpp"

namespace treadle {
namespace {

constexpr std::int64_t kReport = 1 << 14;  // steps between looks at the clock

class Arrangement {
public:
    Arrangement(const ArrangeProblem& problem, std::vector<std::int32_t>& place)
        : problem_(problem),
          place_(place),
          item_(place.size()),
          offset_(place.size() + 1),
          cell_start_(static_cast<std::size_t>(problem.n_classes) * problem.n_kinds + 1) {
        for (int item = 0; item < problem.n_items; ++item) item_[place[item]] = item;
        for (int e = 0; e < problem.n_edges; ++e) {
            ++offset_[problem.tail[e] + 1];
            if (problem.tail[e] != problem.head[e]) ++offset_[problem.head[e] + 1];
        }
        for (int i = 0; i < problem.n_items; ++i) offset_[i + 1] += offset_[i];
        end_.resize(offset_[problem.n_items]);
        std::vector<std::int64_t> next(offset_.begin(), offset_.end() - 1);
        for (int e = 0; e < problem.n_edges; ++e) {
            end_[next[problem.tail[e]]++] = {problem.head[e], true};
            if (problem.tail[e] != problem.head[e]) end_[next[problem.head[e]]++] = {problem.tail[e], false};
        }
        for (int p = 0; p < problem.n_items; ++p) ++cell_start_[cell_of(problem.place_class[p], problem.place_kind[p]) + 1];
        for (std::size_t c = 0; c + 1 < cell_start_.size(); ++c) cell_start_[c + 1] += cell_start_[c];
        by_cell_.resize(problem.n_items);
        std::vector<int> fill(cell_start_.begin(), cell_start_.end() - 1);
        for (int p = 0; p < problem.n_items; ++p) by_cell_[fill[cell_of(problem.place_class[p], problem.place_kind[p])]++] = p;
        if (problem.pair_price) joined_.assign(static_cast<std::size_t>(problem.n_classes) * problem.n_classes, 0);
        for (int e = 0; e < problem.n_edges; ++e) {
            const int a = class_of(problem.tail[e]), b = class_of(problem.head[e]);
            cost_ += price(a, b) + join(a, b, 1);
        }
    }

    std::int64_t cost() const { return cost_; }
    bool is_joined(int item) const { return offset_[item] < offset_[item + 1]; }

    // A place for an item, among those of a neighbour's class every second time; its own for none.
    int proposal(int item, RouteRandom& random) const {
        int target = random.below(problem_.n_items);
        if (random.next() & 1) {
            const std::int64_t degree = offset_[item + 1] - offset_[item];
            const int other = end_[offset_[item] + random.below(static_cast<int>(degree))].item;
            const std::size_t cell = cell_of(class_of(other), kind_of(item));
            const int size = cell_start_[cell + 1] - cell_start_[cell];
            if (size) target = by_cell_[cell_start_[cell] + random.below(size)];
        }
        const bool is_other = problem_.place_class[target] != class_of(item);
        return is_other && problem_.place_kind[target] == kind_of(item) ? target : place_[item];
    }

    // Lets an item and the one at a place change places; what that costs.
    std::int64_t swap(int item, int target) {
        const int other = item_[target], origin = place_[item];
        std::int64_t before = without(item, -1) + without(other, item);
        std::swap(place_[item], place_[other]);
        item_[target] = item;
        item_[origin] = other;
        const std::int64_t change = with(item, -1) + with(other, item) - before;
        cost_ += change;
        return change;
    }

private:
    int class_of(int item) const { return problem_.place_class[place_[item]]; }
    int kind_of(int item) const { return problem_.place_kind[place_[item]]; }
    std::size_t cell_of(int place_class, int kind) const {
        return static_cast<std::size_t>(place_class) * problem_.n_kinds + kind;
    }
    struct End {
        std::int32_t item;
        bool is_head;
    };

    std::int64_t price(int a, int b) const {
        return problem_.price[static_cast<std::size_t>(a) * problem_.n_classes + b];
    }
    // Counts an edge between two classes in (+1) or out (-1); what a pair more or less costs.
    std::int64_t join(int a, int b, int by) {
        if (!problem_.pair_price || a == b) return 0;
        auto& count = joined_[static_cast<std::size_t>(std::min(a, b)) * problem_.n_classes + std::max(a, b)];
        const bool was = count > 0;
        count += by;
        return (static_cast<int>(count > 0) - static_cast<int>(was)) * problem_.pair_price;
    }
    std::int64_t edges(int item, int besides, int by) {
        std::int64_t sum = 0;
        for (std::int64_t at = offset_[item]; at < offset_[item + 1]; ++at) {
            if (end_[at].item == besides) continue;
            const int own = class_of(item), far = class_of(end_[at].item);
            sum += by * (end_[at].is_head ? price(own, far) : price(far, own)) + join(own, far, by);
        }
        return sum;
    }
    // Cost of an item's edges that goes when they are taken out, and that comes when they are put back.
    std::int64_t without(int item, int besides) { return -edges(item, besides, -1); }
    std::int64_t with(int item, int besides) { return edges(item, besides, 1); }

    const ArrangeProblem& problem_;
    std::vector<std::int32_t>& place_;
    std::vector<std::int32_t> item_;
    std::vector<std::int64_t> offset_;
    std::vector<int> cell_start_;
    std::vector<End> end_;
    std::vector<std::int32_t> by_cell_, joined_;
    std::int64_t cost_ = 0;
};

}  // namespace

Status arrange(const ArrangeProblem& problem, const ArrangeOptions& options, Control control,
               std::vector<std::int32_t>& place, std::int64_t& cost) {
    Arrangement now(problem, place);
    std::vector<std::int32_t> joined, best = place;
    for (int item = 0; item < problem.n_items; ++item)
        if (now.is_joined(item)) joined.push_back(item);
    cost = now.cost();
    RouteRandom random(options.seed);
    const double cooling =
        options.steps > 1 ? std::pow(options.cold / options.hot, 1.0 / static_cast<double>(options.steps - 1)) : 1.0;
    double heat = options.hot;
    bool is_better = false;
    for (std::int64_t step = 0; step < options.steps && !joined.empty(); ++step, heat *= cooling) {
        if (step % kReport == 0) {
            control.progress(step, options.steps);
            if (control.cancelled()) return Status::cancelled;
        }
        const int item = joined[random.below(static_cast<int>(joined.size()))];
        const int target = now.proposal(item, random);
        const int origin = place[item];
        if (target == origin) continue;
        const std::int64_t change = now.swap(item, target);
        if (change > 0 && random.unit() >= std::exp(-static_cast<double>(change) / heat)) {
            now.swap(item, origin);
            continue;
        }
        // the best is copied when it is about to be left: once a climb, not once a step
        if (change > 0 && is_better) {
            now.swap(item, origin);
            best = place;
            now.swap(item, target);
            is_better = false;
        }
        if (now.cost() < cost) {
            cost = now.cost();
            is_better = true;
        }
    }
    if (!is_better) place = best;
    return Status::ok;
}

}  // namespace treadle
