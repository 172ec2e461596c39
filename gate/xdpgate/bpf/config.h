// SPDX-License-Identifier: Apache-2.0
// What the program is told: the figures that never change while it is loaded, and the state that user space and the program share.
#pragma once

#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>
#include <bpf/bpf_helpers.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;

// Loops are kept: unrolled, they would fill the instruction cache with what hardly ever runs.
#define KEEP_LOOP _Pragma("clang loop unroll(disable)")

// UNKNOWN keeps the compiler from making conclusions about a variable.
#define UNKNOWN(x) asm volatile("" : "+r"(x))

#define MAX_K 8
#define MAX_LEVELS 4
#define PORT_WORDS (65536 / 64)

enum mode {
	MODE_SYN = 0,
	MODE_PACKETS = 1,
	MODE_BYTES = 2,
};

// The figures of the tables of one level, as bloom.Shape has them.
struct figures {
	u64 unit_ns;
	u32 base[2]; // the first line of each half
	u32 lines;   // of one half
	u32 capacity;
	u32 per_unit;
	u32 grain;
	u32 v6_bits;
	u32 parts; // of a token
	u32 most;  // parts that a limiter counts to, with what has come due
	u32 share; // of the burst that falls on one limiter: the capacity, or a little more
	u32 bytes; // of a limiter: 1 or 2
	u32 lanes; // limiters of a line
};

// Constants are known to the verifier, which removes the code that they rule out.
struct settings {
	struct figures level[MAX_LEVELS];
	u32 levels;
	u32 k;
	u32 mode;
	u32 v4_bits;
	u32 watch_ports;    // only the ports of the map below are watched
	u32 watch_prefixes; // only the destinations in `watched` are
	u32 have_ranges;    // exemptions and groups
	u32 frags;          // the kernel knows packets of several buffers
	u32 ordered;        // the machine keeps the order of reads, as x86 does
	u32 test_clock;     // time is state.clock
	u32 bench_sources;  // measurements only: sources are made up
};

const volatile struct settings config;
const volatile u64 ports[PORT_WORDS];

// The bits of state.control.
enum control {
	CONTROL_HALF = 1,    // which half decides
	CONTROL_CHARGE = 2,  // the other half is charged too: it will take over
	CONTROL_SHADOW = 4,  // judge and count, but let everything pass
	CONTROL_ALLOW = 8,   // the allow list has entries
	CONTROL_BAN = 16,    // the ban list has entries
};

// A half is one of the two tables of a level. Its key and origin are written while neither decides by it nor charges it.
struct half {
	u64 key[2];
	u64 origin; // its time counts from here
	u64 pad;
};

struct shared {
	u64 control;
	u64 clock; // of tests, in nanoseconds
	struct half half[MAX_LEVELS][2];
	// What follows is user space's own: it outlives weir here.
	u64 fingerprint; // of the figures that the tables were made for
	u64 lines;       // the id of the map of their lines
	u64 rotated;
	u64 rotations;
};

// Written to, so that it is no constant: volatile keeps the compiler from believing what it saw before.
volatile struct shared state SEC(".data.state") = {};

// The time, from a clock that is the same on all CPUs and never goes back. It ticks every 1 to 10 ms and is cheap to read: no
// hardware is asked.
static __always_inline u64 clock_ns(void)
{
	if (config.test_clock)
		return state.clock;
	return bpf_ktime_get_coarse_ns();
}
