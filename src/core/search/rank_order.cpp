// Local search over placements (threshold accepting: Dueck and Scheuer, 1990). A swap takes the trees of the groups
// of both ranks out, and plants them anew by the loads that the others leave; the loads of all others stay.
#include "search/rank_order.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "routes/random.hpp"

namespace treadle {
namespace {

constexpr std::int64_t kReport = 1 << 8;  // proposals between looks at the clock
constexpr int kTries = 64;                // random ranks until a pair is found whose swap changes something

struct Tree {
    std::vector<std::int32_t> links;
    std::int32_t longest = 0;
    std::int64_t distance_sum = 0;
};

// Loads of links by trees.
class Planting {
public:
    explicit Planting(const TreeGraph& graph)
        : graph_(graph), load_(static_cast<std::size_t>(graph.n) * graph.degree), needed_(graph.n) {}

    // A tree from a member to the others of its group: from the farthest inwards, by the least loaded shortest ways;
    // a parent that has to receive the shard anyway costs nothing more.
    void plant(int source, const std::int32_t* members, int size, Tree& tree) {
        tree.links.clear();
        tree.longest = 0;
        tree.distance_sum = 0;
        ++stamp_;
        const std::int32_t* row = graph_.distance + static_cast<std::size_t>(source) * graph_.n;
        for (int i = 0; i < size; ++i) {
            const int distance = row[members[i]];
            tree.longest = std::max(tree.longest, distance);
            tree.distance_sum += distance;
            if (distance) need(members[i], distance);
        }
        for (int level = tree.longest; level > 0; --level) {
            auto& nodes = levels_[level];
            std::sort(nodes.begin(), nodes.end());
            for (const int node : nodes) join(node, level, row, tree);
            nodes.clear();
        }
    }

    void add(const Tree& tree) {
        for (const int link : tree.links) shift(link, 1);
    }
    void remove(const Tree& tree) {
        for (const int link : tree.links) shift(link, -1);
    }

    std::int64_t fullest() const { return *std::max_element(load_.begin(), load_.end()); }
    // Whole numbers up to here, so that the order of additions does not matter.
    double evenness() const { return std::sqrt(std::sqrt(static_cast<double>(fourths_) / static_cast<double>(load_.size()))); }
    std::int64_t work() const { return work_; }

private:
    void need(int node, int level) {
        if (static_cast<std::size_t>(level) >= levels_.size()) levels_.resize(level + 1);
        levels_[level].push_back(node);
        needed_[node] = stamp_;
    }
    void join(int node, int level, const std::int32_t* row, Tree& tree) {
        const std::int32_t* into = graph_.into + static_cast<std::size_t>(node) * graph_.degree;
        int best = -1;
        bool is_best_new = false;
        for (int i = 0; i < graph_.degree; ++i) {
            const int link = into[i], parent = graph_.tails[link];
            if (row[parent] != level - 1) continue;
            const bool is_new = level > 1 && needed_[parent] != stamp_;
            if (best < 0 || is_new < is_best_new || (is_new == is_best_new && load_[link] < load_[best])) {
                best = link;
                is_best_new = is_new;
            }
        }
        work_ += graph_.degree;
        shift(best, 1);
        tree.links.push_back(best);
        if (is_best_new) need(graph_.tails[best], level - 1);
    }
    void shift(int link, int by) {
        const auto fourth = [](std::int64_t load) { return load * load * load * load; };
        fourths_ -= fourth(load_[link]);
        load_[link] += by;
        fourths_ += fourth(load_[link]);
    }

    const TreeGraph& graph_;
    std::vector<std::int64_t> load_;
    std::vector<std::int64_t> needed_;
    std::vector<std::vector<int>> levels_;
    std::int64_t stamp_ = 0, fourths_ = 0, work_ = 0;
};

// The trees of all groups of one kind.
class Kind {
public:
    Kind(const RankGroups& groups, const TreeGraph& graph, const std::vector<std::int32_t>& order)
        : groups_(groups), planting_(graph), order_(order), trees_(order.size()), members_(groups.size) {
        for (int rank = 0; rank < static_cast<int>(order.size()); ++rank)
            if (rank == first_of(rank)) plant_group(rank);
    }

    // The first rank of a rank's group.
    int first_of(int rank) const {
        const int block = groups_.size * groups_.stride;
        return rank / block * block + rank % groups_.stride;
    }
    int member(int first, int place) const { return first + place * groups_.stride; }
    int size() const { return groups_.size; }
    std::int64_t work() const { return planting_.work(); }

    double cost() const {
        std::int64_t longest = 0, sum = 0;
        for (const Tree& tree : trees_) {
            longest = std::max<std::int64_t>(longest, tree.longest);
            sum += tree.distance_sum;
        }
        return groups_.hop_price * static_cast<double>(longest) + groups_.load_price * planting_.evenness() +
               groups_.distance_price * static_cast<double>(sum);
    }

    // After two ranks have changed nodes; what was is kept.
    void replant(int one, int other) {
        kept_.clear();
        if (first_of(one) == first_of(other)) return;
        for (const int first : {first_of(one), first_of(other)})
            for (int place = 0; place < groups_.size; ++place) {
                const int rank = member(first, place);
                planting_.remove(trees_[rank]);
                kept_.emplace_back(rank, std::move(trees_[rank]));
            }
        plant_group(first_of(one));
        plant_group(first_of(other));
    }
    void restore() {
        for (auto& [rank, tree] : kept_) {
            planting_.remove(trees_[rank]);
            trees_[rank] = std::move(tree);
        }
        for (const auto& [rank, tree] : kept_) planting_.add(trees_[rank]);
    }

private:
    void plant_group(int first) {
        for (int place = 0; place < groups_.size; ++place) members_[place] = order_[member(first, place)];
        for (int place = 0; place < groups_.size; ++place)
            planting_.plant(members_[place], members_.data(), groups_.size, trees_[member(first, place)]);
    }

    const RankGroups groups_;
    Planting planting_;
    const std::vector<std::int32_t>& order_;
    std::vector<Tree> trees_;
    std::vector<std::int32_t> members_;
    std::vector<std::pair<int, Tree>> kept_;
};

class Placement {
public:
    Placement(const std::vector<TreeGraph>& graphs, const std::vector<RankGroups>& kinds,
              std::vector<std::int32_t>& order)
        : order_(order), rank_(order.size()), graph_(graphs[0]) {
        for (std::size_t rank = 0; rank < order.size(); ++rank) rank_[order[rank]] = static_cast<int>(rank);
        kinds_.reserve(kinds.size());
        for (const RankGroups& groups : kinds) kinds_.emplace_back(groups, graphs[groups.graph], order);
    }

    double cost() const {
        double sum = 0;
        for (const Kind& kind : kinds_) sum += kind.cost();
        return sum;
    }
    std::int64_t work() const {
        std::int64_t sum = 0;
        for (const Kind& kind : kinds_) sum += kind.work();
        return sum;
    }

    // A rank for another one's node: every second time one that lives next to a member of its group.
    int proposal(int one, RouteRandom& random) const {
        for (int trial = 0; trial < kTries; ++trial) {
            int other = random.below(static_cast<int>(order_.size()));
            if (random.next() & 1) {
                const Kind& kind = kinds_[random.below(static_cast<int>(kinds_.size()))];
                const int mate = kind.member(kind.first_of(one), random.below(kind.size()));
                const int link = graph_.into[static_cast<std::size_t>(order_[mate]) * graph_.degree +
                                             random.below(graph_.degree)];
                other = rank_[graph_.tails[link]];
            }
            for (const Kind& kind : kinds_)
                if (kind.first_of(one) != kind.first_of(other)) return other;
        }
        return one;
    }
    void swap(int one, int other) {
        exchange(one, other);
        for (Kind& kind : kinds_) kind.replant(one, other);
    }
    void undo(int one, int other) {
        exchange(one, other);
        for (Kind& kind : kinds_) kind.restore();
    }

private:
    void exchange(int one, int other) {
        std::swap(order_[one], order_[other]);
        rank_[order_[one]] = one;
        rank_[order_[other]] = other;
    }

    std::vector<std::int32_t>& order_;
    std::vector<int> rank_;
    const TreeGraph& graph_;
    std::vector<Kind> kinds_;
};

}  // namespace

TreeFigures tree_figures(const TreeGraph& graph, const std::int32_t* members, int n_groups, int size) {
    Planting planting(graph);
    TreeFigures found;
    Tree tree;
    for (int group = 0; group < n_groups; ++group) {
        const std::int32_t* nodes = members + static_cast<std::size_t>(group) * size;
        for (int place = 0; place < size; ++place) {
            planting.plant(nodes[place], nodes, size, tree);
            found.longest = std::max<std::int64_t>(found.longest, tree.longest);
            found.distance_sum += tree.distance_sum;
        }
    }
    found.fullest = planting.fullest();
    return found;
}

Status order_ranks(const std::vector<TreeGraph>& graphs, const std::vector<RankGroups>& kinds, const RankPace& pace,
                   Control control, std::vector<std::int32_t>& order, double& cost) {
    Placement now(graphs, kinds, order);
    RouteRandom random(pace.seed);
    std::vector<std::int32_t> best = order;
    double current = cost = now.cost();
    std::int64_t proposals = 0;
    for (std::int64_t done = 0; pace.work && (done = now.work()) < pace.work; ++proposals) {
        if (proposals % kReport == 0) {
            control.progress(done, pace.work);
            if (control.cancelled()) return Status::cancelled;
        }
        const int one = random.below(static_cast<int>(order.size()));
        const int other = now.proposal(one, random);
        if (other == one) break;
        const double left = 1 - static_cast<double>(done) / static_cast<double>(pace.work);
        now.swap(one, other);
        const double next = now.cost();
        if (next > current + pace.hot * left * left * cost) {
            now.undo(one, other);
            continue;
        }
        current = next;
        if (current < cost) {
            cost = current;
            best = order;
        }
    }
    order = std::move(best);
    return Status::ok;
}

}  // namespace treadle
