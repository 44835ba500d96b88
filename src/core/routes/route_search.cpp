// Local search for a low largest load (docs/how-it-works/all-to-all.md): each source in turn takes some of its
// pieces off the links, finds shortest paths by lengths that grow exponentially with the loads, and a piece moves if
// that lowers the sum of the exponentials. The exponent grows from sweep to sweep, so that the sum comes near the
// largest load. Lengths as in Shahrokhi and Matula (JACM 37, 1990), moves of whole pieces instead of parts of a flow.
//
// Paths are free, or climb one of several lanes: a lane is a sequence of links, and one pass over it relaxes each link
// when every walk that it can extend is known.
#include "routes/route_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "routes/random.hpp"

namespace treadle {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double least_exponent = -600;  // its exponential is still a normal number
constexpr double most_exponent = 300;
constexpr double level = 1e-120;  // length of an idle link: among idle ways the one with few hops is taken
constexpr int parts = 4;        // of the pieces, each routed knowing those before
constexpr double start_steepness = 6;

// A link in its place in a lane.
struct Rung {
    std::int32_t tail, head, link;
};

// How a lane's climbing paths come to a node: the place of the last link.
struct Reached {
    double distance;
    std::int32_t last, hops;
};

class Searcher {
public:
    Searcher(const PieceTable& pieces, const ClimbLanes& lanes, const SearchPace& pace, LanePaths& paths)
        : p_(pieces), lanes_(lanes), pace_(pace), paths_(paths), random_(pace.seed), n_(pieces.n_nodes),
          m_(pieces.n_links), first_out_(n_ + 1, 0), load_(m_, 0), value_(m_), length_(m_), up_(m_), down_(m_),
          factor_(m_), distance_(n_), reach_(n_) {
        for (int e = 0; e < m_; e++)
            if (p_.tail[e] != p_.head[e]) first_out_[p_.tail[e] + 1]++;
        std::partial_sum(first_out_.begin(), first_out_.end(), first_out_.begin());
        out_.resize(first_out_[n_]);
        std::vector<int> next(first_out_.begin(), first_out_.end() - 1);
        for (int e = 0; e < m_; e++)
            if (p_.tail[e] != p_.head[e]) out_[next[p_.tail[e]]++] = e;
        const std::int64_t count = p_.first[p_.n_sources];
        amount_ = count ? p_.amount[0] : 1;
        double total = 0;
        for (std::int64_t i = 0; i < count; i++) {
            is_even_ = is_even_ && p_.amount[i] == amount_;
            total += static_cast<double>(p_.amount[i]);
        }
        typical_ = count ? std::max(1.0, total / static_cast<double>(count)) : 1;
        order_.resize(p_.n_sources);
        std::iota(order_.begin(), order_.end(), 0);
        if (lanes_.n_lanes) {
            lay_rungs();
        } else {
            into_.resize(static_cast<std::size_t>(pace_.most_hops + 1) * n_);
        }
        adopt();
    }

    Status run(const Control& control) {
        const bool served = begin();
        Status status = Status::ok;
        for (int sweep = 0; sweep < pace_.sweeps && status == Status::ok; sweep++) {
            const double part = pace_.sweeps > 1 ? static_cast<double>(sweep) / (pace_.sweeps - 1) : 1;
            steepness_ = pace_.flat * std::pow(pace_.steep / pace_.flat, part);
            scale(fullest());
            shuffle();
            for (int i = 0; i < p_.n_sources; i++) {
                if (control.cancelled()) {
                    status = Status::cancelled;
                    break;
                }
                control.progress(static_cast<std::int64_t>(sweep) * p_.n_sources + i,
                                 static_cast<std::int64_t>(pace_.sweeps) * p_.n_sources);
                pick(order_[i], [this](std::int64_t) { return random_.unit() < pace_.share; });
                visit(order_[i]);
            }
        }
        hand_over();
        return served ? status : Status::stuck;
    }

private:
    int link_of(int lane, int place) const {
        return lanes_.n_lanes ? lanes_.link[static_cast<std::size_t>(lane) * lanes_.length + place] : place;
    }

    // The paths given, source by source.
    void adopt() {
        const std::int64_t count = p_.first[p_.n_sources];
        pool_.resize(p_.n_sources);
        start_.assign(count, 0);
        hops_.assign(count, 0);
        lane_.assign(count, 0);
        if (paths_.offset.empty()) return;
        for (int s = 0; s < p_.n_sources; s++) {
            pool_[s].reserve(paths_.offset[p_.first[s + 1]] - paths_.offset[p_.first[s]]);
            for (std::int64_t i = p_.first[s]; i < p_.first[s + 1]; i++) {
                start_[i] = static_cast<std::int32_t>(pool_[s].size());
                hops_[i] = static_cast<std::int32_t>(paths_.offset[i + 1] - paths_.offset[i]);
                lane_[i] = paths_.lane[i];
                for (std::int64_t j = paths_.offset[i]; j < paths_.offset[i + 1]; j++) {
                    pool_[s].push_back(paths_.place[j]);
                    load_[link_of(lane_[i], paths_.place[j])] += p_.amount[i];
                }
            }
        }
        paths_ = LanePaths{};
    }

    void hand_over() {
        const std::int64_t count = p_.first[p_.n_sources];
        paths_.lane.assign(lane_.begin(), lane_.end());
        paths_.offset.assign(count + 1, 0);
        for (std::int64_t i = 0; i < count; i++) paths_.offset[i + 1] = paths_.offset[i] + hops_[i];
        paths_.place.resize(paths_.offset[count]);
        for (int s = 0; s < p_.n_sources; s++) {
            for (std::int64_t i = p_.first[s]; i < p_.first[s + 1]; i++)
                std::copy_n(pool_[s].begin() + start_[i], hops_[i], paths_.place.begin() + paths_.offset[i]);
            std::vector<std::int32_t>().swap(pool_[s]);
        }
    }

    // Whether every piece has a path in the end: those without get one, part by part.
    bool begin() {
        steepness_ = start_steepness;
        scale(std::max(fullest(), expected()));
        bool served = true;
        for (int part = 0; part < parts; part++) {
            shuffle();
            for (int s : order_) {
                pick(s, [&](std::int64_t i) { return !hops_[i] && (part + 1 == parts || random_.below(parts - part) == 0); });
                if (picked_.empty()) continue;
                visit(s);
                if (part + 1 < parts) continue;
                pick(s, [&](std::int64_t i) { return !hops_[i]; });
                if (picked_.empty()) continue;
                visit(s, true);  // few hops before short ways: the limit on hops may have cut off the latter
                pick(s, [&](std::int64_t i) { return !hops_[i]; });
                served = served && picked_.empty();
            }
        }
        return served;
    }

    void shuffle() {
        for (int i = p_.n_sources - 1; i > 0; i--) std::swap(order_[i], order_[random_.below(i + 1)]);
    }

    double fullest() const {
        double most = 0;
        for (int e = 0; e < m_; e++) most = std::max(most, static_cast<double>(load_[e]) / p_.width[e]);
        return most;
    }

    // A load that all links would have if the pieces took fewest hops and were spread evenly.
    double expected() {
        double hops = 0, width = 0;
        std::vector<int> depth(n_), queue;
        for (int s = 0; s < p_.n_sources; s++) {
            std::fill(depth.begin(), depth.end(), -1);
            queue.assign(1, p_.node[s]);
            depth[p_.node[s]] = 0;
            for (std::size_t i = 0; i < queue.size(); i++)
                for (int j = first_out_[queue[i]]; j < first_out_[queue[i] + 1]; j++) {
                    const int v = p_.head[out_[j]];
                    if (depth[v] >= 0) continue;
                    depth[v] = depth[queue[i]] + 1;
                    queue.push_back(v);
                }
            for (std::int64_t i = p_.first[s]; i < p_.first[s + 1]; i++)
                hops += static_cast<double>(p_.amount[i]) * std::max(0, depth[p_.target[i]]);
        }
        for (int e = 0; e < m_; e++) width += p_.width[e];
        return width > 0 ? hops / width : 0;
    }

    void scale(double most) {
        most = std::max(most, 1e-300);
        for (int e = 0; e < m_; e++) {
            slope_ = steepness_ / most;
            const double step = slope_ / p_.width[e];
            up_[e] = std::exp(std::min(most_exponent, step * static_cast<double>(amount_)));
            down_[e] = 1 / up_[e];
            factor_[e] = std::expm1(std::min(most_exponent, step * typical_));
            value_[e] = exponential(e);
            length_[e] = (value_[e] + level) * factor_[e];
        }
    }

    double exponential(int e) const {
        const double exponent = slope_ / p_.width[e] * static_cast<double>(load_[e]) - steepness_;
        return std::exp(std::min(most_exponent, std::max(least_exponent, exponent)));
    }

    void put(int e, std::int64_t amount, bool on) {
        load_[e] += on ? amount : -amount;
        value_[e] = is_even_ ? std::min(value_[e] * (on ? up_[e] : down_[e]), 1e200) : exponential(e);
        length_[e] = (value_[e] + level) * factor_[e];
    }

    // What a piece on the link adds to the sum.
    double added(int e, std::int64_t amount) const {
        if (is_even_) return length_[e];
        return (value_[e] + level) *
               std::expm1(std::min(most_exponent, slope_ / p_.width[e] * static_cast<double>(amount)));
    }

    template <class Chosen>
    void pick(int source, Chosen chosen) {
        picked_.clear();
        for (std::int64_t i = p_.first[source]; i < p_.first[source + 1]; i++)
            if (chosen(i)) picked_.push_back(i);
    }

    // Find ways for the picked pieces by the lengths as they are; then each in turn moves if that adds less to the sum.
    void visit(int source, bool by_hops = false) {
        if (by_hops) plain_.assign(m_, 1.0);
        const double* length = by_hops ? plain_.data() : length_.data();
        if (lanes_.n_lanes)
            for (int k = 0; k < lanes_.n_lanes; k++) climb(k, p_.node[source], length);
        else
            spread(p_.node[source], length);
        spare_.clear();
        std::size_t next = 0;
        for (std::int64_t i = p_.first[source]; i < p_.first[source + 1]; i++) {
            const std::int32_t begin = static_cast<std::int32_t>(spare_.size());
            const bool is_picked = next < picked_.size() && picked_[next] == i;
            if (is_picked) {
                next++;
                for (int j = 0; j < hops_[i]; j++)
                    put(link_of(lane_[i], pool_[source][start_[i] + j]), p_.amount[i], false);
            }
            if (is_picked && reroute(source, i)) {
                spare_.insert(spare_.end(), way_.rbegin(), way_.rend());
                hops_[i] = static_cast<std::int32_t>(way_.size());
            } else {
                const auto old = pool_[source].begin() + start_[i];
                spare_.insert(spare_.end(), old, old + hops_[i]);
            }
            start_[i] = begin;
            if (is_picked)
                for (int j = 0; j < hops_[i]; j++) put(link_of(lane_[i], spare_[begin + j]), p_.amount[i], true);
        }
        pool_[source].swap(spare_);
    }

    // Whether the new way of a piece, from its end on in way_, adds less than the one it had.
    bool reroute(int source, std::int64_t i) {
        const int lane = lanes_.n_lanes ? trace_lane(p_.target[i]) : trace_free(p_.node[source], p_.target[i]);
        if (lane < 0) return false;
        double now = 0, then = 0;
        for (std::int32_t place : way_) now += added(link_of(lane, place), p_.amount[i]);
        for (int j = 0; j < hops_[i]; j++) then += added(link_of(lane_[i], pool_[source][start_[i] + j]), p_.amount[i]);
        if (hops_[i] && now >= then) return false;
        lane_[i] = lane;
        return true;
    }

    // Shortest walks of at most so many hops, level by level (Bellman and Ford); lengths are not negative and a way is
    // only replaced by a strictly shorter one, so none comes to a node twice.
    void spread(int root, const double* length) {
        std::fill(distance_.begin(), distance_.end(), infinity);
        std::fill(into_.begin(), into_.end(), -1);
        distance_[root] = 0;
        front_.assign(1, root);
        for (int hop = 1; hop <= pace_.most_hops && !front_.empty(); hop++) {
            std::int32_t* into = into_.data() + static_cast<std::size_t>(hop) * n_;
            reach_.clear();
            for (int u : front_) reach_.push_back(distance_[u]);
            next_.clear();
            for (std::size_t i = 0; i < front_.size(); i++)
                for (int j = first_out_[front_[i]]; j < first_out_[front_[i] + 1]; j++) {
                    const int e = out_[j], v = p_.head[e];
                    const double through = reach_[i] + length[e];
                    if (through >= distance_[v]) continue;
                    distance_[v] = through;
                    if (into[v] < 0) next_.push_back(v);
                    into[v] = e;
                }
            front_.swap(next_);
        }
    }

    int trace_free(int root, int node) {
        way_.clear();
        if (distance_[node] == infinity) return -1;
        for (int hop = pace_.most_hops; node != root; hop--) {
            const std::int32_t e = into_[static_cast<std::size_t>(hop) * n_ + node];
            if (e < 0) continue;
            way_.push_back(e);
            node = p_.tail[e];
        }
        return 0;
    }

    void lay_rungs() {
        const std::size_t entries = static_cast<std::size_t>(lanes_.n_lanes) * lanes_.length;
        rung_.resize(entries);
        before_.resize(entries);
        reached_.resize(static_cast<std::size_t>(lanes_.n_lanes) * n_);
        first_rung_.assign(reached_.size(), lanes_.length);
        for (int k = 0; k < lanes_.n_lanes; k++)
            for (int i = lanes_.length - 1; i >= 0; i--) {
                const int e = link_of(k, i);
                rung_[static_cast<std::size_t>(k) * lanes_.length + i] = {p_.tail[e], p_.head[e], e};
                first_rung_[static_cast<std::size_t>(k) * n_ + p_.tail[e]] = i;
            }
    }

    void climb(int lane, int root, const double* length) {
        const std::size_t at = static_cast<std::size_t>(lane) * n_, row = static_cast<std::size_t>(lane) * lanes_.length;
        Reached* reached = reached_.data() + at;
        std::int32_t* before = before_.data() + row;
        const Rung* rung = rung_.data() + row;
        std::fill(reached, reached + n_, Reached{infinity, -1, 0});
        reached[root].distance = 0;
        for (int i = first_rung_[at + root]; i < lanes_.length; i++) {
            const Reached& from = reached[rung[i].tail];
            Reached& to = reached[rung[i].head];
            const double through = from.distance + length[rung[i].link];
            if (through >= to.distance || from.hops >= pace_.most_hops) continue;
            before[i] = from.last;
            to = {through, i, from.hops + 1};
        }
    }

    int trace_lane(int node) {
        way_.clear();
        int best = -1;
        double nearest = infinity;
        for (int k = 0; k < lanes_.n_lanes; k++) {
            const double distance = reached_[static_cast<std::size_t>(k) * n_ + node].distance;
            if (distance < nearest) {
                nearest = distance;
                best = k;
            }
        }
        if (best < 0) return -1;
        const std::int32_t* before = before_.data() + static_cast<std::size_t>(best) * lanes_.length;
        for (std::int32_t i = reached_[static_cast<std::size_t>(best) * n_ + node].last; i >= 0; i = before[i])
            way_.push_back(i);
        return best;
    }

    const PieceTable& p_;
    const ClimbLanes& lanes_;
    const SearchPace& pace_;
    LanePaths& paths_;
    RouteRandom random_;
    int n_, m_;
    std::vector<int> first_out_, out_;
    std::vector<std::int64_t> load_;
    std::vector<double> value_, length_, up_, down_, factor_, distance_, reach_, plain_;
    std::int64_t amount_ = 1;
    double typical_ = 1, steepness_ = 1, slope_ = 1;
    bool is_even_ = true;
    std::vector<int> order_, front_, next_;
    std::vector<std::int32_t> into_, way_, spare_;
    std::vector<std::int64_t> picked_;
    std::vector<std::vector<std::int32_t>> pool_;  // by source
    std::vector<std::int32_t> start_, hops_, lane_;
    std::vector<Rung> rung_;  // lane after lane
    std::vector<Reached> reached_;  // lane after lane, by node
    std::vector<std::int32_t> first_rung_, before_;
};

}  // namespace

Status search_routes(const PieceTable& pieces, const ClimbLanes& lanes, const SearchPace& pace, const Control& control,
                     LanePaths& paths) {
    return Searcher(pieces, lanes, pace, paths).run(control);
}

}  // namespace treadle
