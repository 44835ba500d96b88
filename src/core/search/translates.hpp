// Sets of elements of an abelian group as bits, and their translates.
#pragma once
#include <cstdint>
#include <vector>

namespace treadle {

using Word = std::uint64_t;
using Bits = std::vector<Word>;

// Counts set bits by sums within words: vectorises without instructions of newer processors.
inline int count_bits(const Word* bits, int words) {
    Word total = 0;
    for (int i = 0; i < words; i++) {
        Word x = bits[i];
        x -= (x >> 1) & 0x5555555555555555ULL;
        x = (x & 0x3333333333333333ULL) + ((x >> 2) & 0x3333333333333333ULL);
        x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0FULL;
        x += x >> 8;
        x += x >> 16;
        x += x >> 32;
        total += x & 0x7F;
    }
    return static_cast<int>(total);
}

// Sets of elements as bits, and their translates: within each cyclic factor a rotation of blocks.
class BitGroup {
public:
    explicit BitGroup(const std::vector<std::int32_t>& moduli) : moduli_(moduli) {
        for (const auto m : moduli) n_ *= m;
        words_ = (n_ + 63) / 64;
        int unit = n_;
        for (const auto m : moduli) {
            unit /= m;
            units_.push_back(unit);
            low_.emplace_back();
            if (unit * m == n_) continue;  // the first factor turns the whole
            for (int by = 0; by < m; by++) {
                Bits mask(words_, 0);
                for (int v = 0; v < n_; v++)
                    if (v % (unit * m) < by * unit) mask[v >> 6] |= Word{1} << (v & 63);
                low_.back().insert(low_.back().end(), mask.begin(), mask.end());
            }
        }
        scratch_.assign(words_, 0);
    }

    int order() const { return n_; }
    int words() const { return words_; }

    int inverse(int v) const {
        int found = 0;
        for (std::size_t r = 0; r < moduli_.size(); r++) {
            const int digit = v / units_[r] % moduli_[r];
            found += (digit ? moduli_[r] - digit : 0) * units_[r];
        }
        return found;
    }

    int sum(int v, int w) const {
        int found = 0;
        for (std::size_t r = 0; r < moduli_.size(); r++)
            found += (v / units_[r] + w / units_[r]) % moduli_[r] * units_[r];
        return found;
    }

    // out |= in + g; `out` and `in` are different.
    void add_translate(Word* out, const Word* in, int g) {
        if (moduli_.size() == 1) {
            rotate(out, in, g);
            return;
        }
        const Word* from = in;
        for (std::size_t r = moduli_.size(); r-- > 0;) {
            const int digit = g / units_[r] % moduli_[r];
            const bool is_last = r == 0;
            if (!digit && !is_last) continue;
            if (is_last) {
                rotate(out, from, digit * units_[0]);
                return;
            }
            turn_blocks(from, r, digit);
            from = scratch_.data();
        }
    }

private:
    // out |= the n bits of `in` turned by `by`.
    void rotate(Word* out, const Word* in, int by) const {
        if (by == 0) {
            for (int i = 0; i < words_; i++) out[i] |= in[i];
            return;
        }
        shift_up(out, in, by);
        shift_down(out, in, n_ - by);
        if (n_ & 63) out[words_ - 1] &= (Word{1} << (n_ & 63)) - 1;
    }

    void shift_up(Word* out, const Word* in, int by) const {
        const int whole = by >> 6, part = by & 63;
        if (part == 0) {
            for (int i = whole; i < words_; i++) out[i] |= in[i - whole];
            return;
        }
        out[whole] |= in[0] << part;
        for (int i = whole + 1; i < words_; i++) out[i] |= in[i - whole] << part | in[i - whole - 1] >> (64 - part);
    }

    void shift_down(Word* out, const Word* in, int by) const {
        const int whole = by >> 6, part = by & 63, last = words_ - 1 - whole;
        if (part == 0) {
            for (int i = 0; i <= last; i++) out[i] |= in[i + whole];
            return;
        }
        for (int i = 0; i < last; i++) out[i] |= in[i + whole] >> part | in[i + whole + 1] << (64 - part);
        out[last] |= in[words_ - 1] >> part;
    }

    // scratch = every block of factor r turned by `digit` places; `from` may be the scratch.
    void turn_blocks(const Word* from, std::size_t r, int digit) {
        const int by = digit * units_[r], back = (moduli_[r] - digit) * units_[r];
        const Word* low = low_[r].data() + static_cast<std::size_t>(digit) * words_;
        up_.assign(words_, 0);
        down_.assign(words_, 0);
        shift_up(up_.data(), from, by);
        shift_down(down_.data(), from, back);
        for (int i = 0; i < words_; i++) scratch_[i] = (up_[i] & ~low[i]) | (down_[i] & low[i]);
        if (n_ & 63) scratch_[words_ - 1] &= (Word{1} << (n_ & 63)) - 1;
    }

    std::vector<std::int32_t> moduli_;
    int n_ = 1, words_ = 0;
    std::vector<int> units_;
    std::vector<Bits> low_;
    Bits scratch_, up_, down_;
};

}  // namespace treadle
