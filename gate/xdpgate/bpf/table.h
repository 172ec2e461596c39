// SPDX-License-Identifier: Apache-2.0
// The lines of limiters, as throttle/bloom/table.go has them: the same places, the same answers.
#pragma once

#include "hash.h"

#define LINE_BYTES 64
#define TIME_AT (LINE_BYTES - 2) // where the time counter of a line is; limiters are before it
#define TIME_SHIFT 48            // and in the last word
#define TIME_MASK 0xffffULL

// How often a compare-and-swap is tried again that another CPU was quicker at. After that the limiter counts as empty, and what
// was to be given is lost: never is more granted than there is.
#define TRIES 8

struct line {
	u64 words[8];
};

// The memory of a map that can be mapped begins at a page, so that a value of 64 bytes is a cache line.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); // set before it is loaded
	__type(key, u32);
	__type(value, struct line);
} lines SEC(".maps");

// A place is the byte of a table that a limiter begins with.
static __always_inline struct line *line_at(u32 base, u32 place)
{
	u32 index = base + place / LINE_BYTES;
	return bpf_map_lookup_elem(&lines, &index);
}

static __always_inline u64 load(const u64 *word)
{
	return *(const volatile u64 *)word;
}

// The two halves of a hash choose line and lane.
static __always_inline u32 place_of(u64 x, const volatile struct figures *f)
{
	u32 line = (u64)(u32)x * f->lines >> 32;
	u32 lane = (x >> 32) * f->lanes >> 32;
	return line * LINE_BYTES + lane * f->bytes;
}

// mask is what a limiter can count to.
static __always_inline u64 mask_of(u32 bytes)
{
	return bytes == 1 ? 0xff : 0xffff;
}

static __always_inline u64 *word_of(struct line *line, u32 place)
{
	return &line->words[place >> 3 & 7];
}

// fill takes due from each lane of a word, down to zero: several saturating subtractions in one.
static __always_inline u64 fill(u64 word, u64 due, u32 bytes)
{
	const u64 mask = mask_of(bytes), every = bytes == 1 ? ~0ULL / 0xff : ~0ULL / 0xffff;
	const u64 top = every << (bytes == 1 ? 7 : 15);
	u64 d = due * every;
	u64 diff = (word | top) - (d & ~top);
	u64 negative = ((~word & d) | (~(word ^ d) & ~diff)) & top;
	diff ^= (word ^ ~d) & top;
	return diff & ~((negative >> (bytes == 1 ? 7 : 15)) * mask);
}

// read_stamp reads the word with the time counter, before the clock is read: then no counter is ahead of the clock. An atomic
// operation keeps the order of reads where the machine does not.
static __always_inline u64 read_stamp(struct line *line)
{
	if (config.ordered)
		return load(&line->words[7]);
	return __sync_fetch_and_add(&line->words[7], 0);
}

// unit_now is the time unit of a half.
static __always_inline u64 unit_now(u32 level, u32 half)
{
	u64 now = clock_ns(), origin = state.half[level][half].origin;
	return now > origin ? (now - origin) / config.level[level].unit_ns : 0;
}

// due_at is what has come due to each limiter of a line since its time counter was set. By a time that is behind the line's it is more
// than anybody counts to.
static __always_inline u32 due_at(u32 stamp, u64 unit, const volatile struct figures *f)
{
	return (u32)(u16)(unit - stamp) * f->per_unit;
}

// due_after is due_at for lines that were just filled, some of them by others who may have a later time.
static __always_inline u32 due_after(u32 stamp, u64 unit, const volatile struct figures *f)
{
	return (u16)(unit - stamp) >> 15 ? 0 : due_at(stamp, unit, f);
}

// left is what a limiter has of which so much is written as spent.
static __always_inline u32 left(u32 spent, u32 due, u32 capacity)
{
	spent = spent > due ? spent - due : 0;
	return spent < capacity ? capacity - spent : 0;
}

// WHERE names a limiter to the functions below. Functions that are not static are checked by the verifier once, and not again for each
// way that leads to them; they take five arguments.
#define WHERE(level, half, place) ((u64)(level) << 33 | (u64)(half) << 32 | (place))

#define LIMITER_OF(where)                                                                       \
	const volatile struct figures *f = &config.level[(where) >> 33 & (MAX_LEVELS - 1)];      \
	u32 place = (where);                                                                    \
	struct line *line = line_at(f->base[(where) >> 32 & 1], place);                         \
	if (!line)                                                                              \
		return 0;                                                                       \
	u64 *word = word_of(line, place), mask = mask_of(f->bytes);                             \
	u32 shift = (place & 7) * 8;

// spend_up_to takes at most so many tokens from one limiter at a time unit, as long as no more than most are spent, and returns how many.
// What is due was there, too: a limiter that is full counts from there.
__noinline u32 spend_up_to(u64 where, u32 tokens, u32 most, u64 unit)
{
	LIMITER_OF(where)
	KEEP_LOOP
	for (int i = 0; i < TRIES; i++) {
		u64 old = load(word);
		u32 due = due_after(read_stamp(line) >> TIME_SHIFT, unit, f);
		u64 spent = old >> shift & mask, from = spent > due ? spent : due, end = (u64)due + most;
		if (end > mask)
			end = mask;
		if (from >= end || tokens == 0)
			return 0;
		u64 take = end - from;
		if (take > tokens)
			take = tokens;
		if (__sync_val_compare_and_swap(word, old, old + ((from + take - spent) << shift)) == old)
			return take;
	}
	return 0;
}

// give_up_to returns tokens to one limiter at a time unit, and how many it took. What has come back by itself is not given.
__noinline u32 give_up_to(u64 where, u32 tokens, u64 unit)
{
	LIMITER_OF(where)
	KEEP_LOOP
	for (int i = 0; i < TRIES; i++) {
		u64 old = load(word);
		u32 due = due_after(read_stamp(line) >> TIME_SHIFT, unit, f);
		u64 spent = old >> shift & mask, back = spent > due ? spent - due : 0;
		if (back > tokens)
			back = tokens;
		if (back == 0)
			return 0;
		if (__sync_val_compare_and_swap(word, old, old - (back << shift)) == old)
			return back;
	}
	return 0;
}

// refill_lanes is refill_line for limiters of a width that the compiler knows.
static __always_inline int refill_lanes(struct line *line, u32 times, u64 due, u32 bytes)
{
	if (due > mask_of(bytes))
		due = mask_of(bytes);
	u64 last = load(&line->words[7]);
	KEEP_LOOP
	for (int i = 0; i < TRIES; i++) {
		if (last >> TIME_SHIFT != times >> 16)
			return 0; // another CPU refills it
		u64 next = fill(last & ~(TIME_MASK << TIME_SHIFT), due, bytes) | (u64)times << TIME_SHIFT;
		u64 was = __sync_val_compare_and_swap(&line->words[7], last, next);
		if (was == last)
			goto claimed;
		last = was;
	}
	return 0;
claimed:
	KEEP_LOOP
	for (int w = 0; w < 7; w++) {
		u64 old = load(&line->words[w]);
		KEEP_LOOP
		for (int i = 0; i < TRIES; i++) {
			u64 next = fill(old, due, bytes);
			if (next == old)
				break;
			u64 was = __sync_val_compare_and_swap(&line->words[w], old, next);
			if (was == old)
				break;
			old = was;
		}
	}
	return 0;
}

// refill_line gives every limiter of a line what has come due. `times` is what the time counter of the line was, and below it the time
// unit that it is set to. The counter is claimed first, in one step with the limiters that share its word: of several who try, one
// refills.
__noinline int refill_line(u32 index, u32 times, u64 due, u32 bytes)
{
	struct line *line = bpf_map_lookup_elem(&lines, &index);
	if (!line)
		return 0;
	return bytes == 1 ? refill_lanes(line, times, due, 1) : refill_lanes(line, times, due, 2);
}

// among reports whether a place is one of the first n. A branch for each would have the verifier follow all of them, and the
// processor guess.
static __always_inline bool among(u32 p, const u32 *places, u32 n)
{
	u64 found = 0;
	for (u32 i = 0; i < n; i++) {
		u64 differ = places[i] ^ p;
		UNKNOWN(differ);
		found |= differ - 1; // the top bit tells
	}
	return found >> 63;
}

// apart moves a place on until it is none of the first n, which happens at most n times.
static __always_inline u32 apart(u32 p, const u32 *places, u32 n, u32 bytes)
{
	KEEP_LOOP
	for (u32 i = 0; i < n && among(p, places, n); i++) {
		p += bytes;
		if (p % LINE_BYTES == TIME_AT)
			p -= TIME_AT;
	}
	return p;
}

// another is where limiter i > 0 of a source is, before it is set apart from the others.
static __always_inline u32 another(u64 h, u32 i, const volatile struct figures *f)
{
	u64 x = h + (u64)i * 0x9e3779b97f4a7c15ULL;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return place_of(x ^ x >> 31, f);
}

// A flood spends its time here, so this is written out: the compiler does not unroll a loop that it may leave at any turn.
#define EACH_LIMITER(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

// Where limiter i is.
#define PLACE(i)                                                                                \
	if (i < k)                                                                              \
		places[i] = i == 0 ? place_of(h, f) : apart(another(h, i, f), places, i, f->bytes);

// take_other goes on when the first limiter has too little, or its line has to be filled, at a time unit. It returns the number of the
// limiter that gave the last of the tokens, from 1, or 0. To drain it takes what there is.
__noinline u32 take_other(u64 h, u32 level, u64 half_drain, u32 tokens, u64 unit)
{
	level &= MAX_LEVELS - 1;
	u32 half = half_drain & 1, drain = half_drain >> 32;
	const volatile struct figures *f = &config.level[level];
	u32 k = config.k;
	u32 places[MAX_K];
	// The time counters, and below them what is spent; later, what was taken. Volatile keeps them out of registers, of which there
	// are few.
	volatile u32 found[MAX_K];

	// All lines are fetched before the first is looked at: the processor waits for memory once.
#define FETCH(i)                                                                                \
	if (i < k) {                                                                            \
		struct line *line = line_at(f->base[half], places[i]);                          \
		if (!line)                                                                      \
			return 0;                                                               \
		u32 spent = load(word_of(line, places[i])) >> (places[i] & 7) * 8 & mask_of(f->bytes); \
		found[i] = (u32)(read_stamp(line) >> TIME_SHIFT) << 16 | spent;                 \
	}
#define PLACE_AND_FETCH(i) PLACE(i) FETCH(i)
	EACH_LIMITER(PLACE_AND_FETCH)
	// More than all limiters hold is granted when they are full, and they owe the rest.
	u32 full = f->capacity * k, needed = tokens < full ? tokens : full, all = 0;
	if (drain)
		needed = 0;
#define LOOK_AT(i)                                                                              \
	if (i < k) {                                                                            \
		u32 was = found[i], due = due_at(was >> 16, unit, f);                           \
		if (due > f->most - f->share)                                                   \
			goto refill;                                                            \
		all += left(was & 0xffff, due, f->capacity);                                    \
	}
	EACH_LIMITER(LOOK_AT)
	goto filled;
refill:;
	unit = unit_now(level, half); // again: what was read of the lines may be newer than the last time
#define REFILL(i)                                                                               \
	if (i < k) {                                                                            \
		u32 stamp = found[i] >> 16, due = due_at(stamp, unit, f);                       \
		if (due > f->most - f->share)                                                   \
			refill_line(f->base[half] + places[i] / LINE_BYTES, stamp << 16 | (u16)unit, due, f->bytes); \
	}
	EACH_LIMITER(REFILL)
	EACH_LIMITER(FETCH)
	all = 0;
#define ADD_UP(i)                                                                               \
	if (i < k)                                                                              \
		all += left(found[i] & 0xffff, due_after(found[i] >> 16, unit, f), f->capacity);
	EACH_LIMITER(ADD_UP)
filled:
	if (all < needed)
		return 0; // a flood is dropped here
	u32 most = tokens > f->capacity * k ? f->share : f->capacity;
#define SPEND(i)                                                                                \
	if (i < k) {                                                                            \
		u32 taken = spend_up_to(WHERE(level, half, places[i]), tokens, most, unit);     \
		found[i] = taken;                                                               \
		tokens -= taken;                                                                \
		if (tokens == 0)                                                                \
			return i + 1;                                                           \
	}
	EACH_LIMITER(SPEND)
	if (!needed)
		return 0;
#define UNDO(i)                                                                                 \
	if (i < k)                                                                              \
		give_up_to(WHERE(level, half, places[i]), found[i], unit);
	EACH_LIMITER(UNDO) // another CPU was quicker
	return 0;
}

// take asks for tokens for the network with a hash and returns the number of the limiter that gave the last of them, from 1, or 0.
// Mostly the first limiter has them: that touches one line and writes one word.
static __always_inline u32 take(u32 level, u32 half, u64 h, u32 tokens, u32 drain)
{
	const volatile struct figures *f = &config.level[level];
	u32 place = place_of(h, f);
	struct line *line = line_at(f->base[half], place);
	if (!line)
		return 0;
	u64 *word = word_of(line, place);
	u32 shift = (place & 7) * 8;
	u64 old = load(word);
	u32 stamp = read_stamp(line) >> TIME_SHIFT; // after the limiter, and before the clock: so it is not ahead of it
	u64 unit = unit_now(level, half);
	u64 due = due_at(stamp, unit, f), spent = old >> shift & mask_of(f->bytes);
	u64 next = (spent > due ? spent : due) + tokens;
	if (next <= due + f->capacity && next <= f->most &&
	    __sync_val_compare_and_swap(word, old, old + ((next - spent) << shift)) == old)
		return 1;
	return take_other(h, level, half | (u64)drain << 32, tokens, unit);
}

// take_one takes for an IPv4 network or a group: their limiters are on the first level.
static __always_inline u32 take_one(u32 half, u64 network, u32 tokens, u32 drain)
{
	return take(0, half, hash(&state.half[0][half], 0, 0, network, false), tokens, drain);
}

// charge_one takes what was granted from the half that will take over, as far as it has it: so it never has more than the limit leaves.
__noinline int charge_one(u32 half, u64 network, u32 tokens)
{
	take_one(half & 1, network, tokens, true);
	return 0;
}

// take_v6 takes for an IPv6 network from one level of one half. To drain it takes what is there.
__noinline u32 take_v6(u32 level, u64 half_drain, u64 high, u64 low, u32 tokens)
{
	level &= MAX_LEVELS - 1;
	u32 half = half_drain & 1;
	return take(level, half, hash_v6(&state.half[level][half], high, low, config.level[level].v6_bits), tokens, half_drain >> 32);
}

// give returns tokens to the limiters of a hash, from the one that gave the last of them backwards.
__noinline int give(u64 h, u32 level, u32 half, u32 from, u32 tokens)
{
	level &= MAX_LEVELS - 1;
	half &= 1;
	const volatile struct figures *f = &config.level[level];
	u32 k = config.k;
	u32 places[MAX_K];
	u64 unit = unit_now(level, half);
	EACH_LIMITER(PLACE)
#define GIVE(i)                                                                                 \
	if (i < k && i < from && tokens)                                                        \
		tokens -= give_up_to(WHERE(level, half, places[i]), tokens, unit);
	GIVE(7) GIVE(6) GIVE(5) GIVE(4) GIVE(3) GIVE(2) GIVE(1) GIVE(0)
	return 0;
}

// give_v6 returns tokens to the limiters of an IPv6 network on one level of one half.
__noinline int give_v6(u32 level, u64 half, u64 high, u64 low, u64 tokens)
{
	level &= MAX_LEVELS - 1;
	half &= 1;
	give(hash_v6(&state.half[level][half], high, low, config.level[level].v6_bits), level, half, tokens >> 32, tokens);
	return 0;
}
