// SPDX-License-Identifier: Apache-2.0
// Lists of networks: who is allowed, who is banned, who is exempt or in a group, and which destinations are watched.
#pragma once

#include "config.h"

#define FAMILY_BITS 32

// A key begins with the family, so that no IPv6 network takes in an IPv4 address.
struct list_key {
	u32 prefixlen; // of what follows
	u32 family;    // 4 or 6
	u8 addr[16];
};

struct list_entry {
	u64 until; // on the clock of the program; 0 for good. It may outlive weir, so the program itself looks
	u32 bits;  // of the network: how far to go back when it has expired
	u32 mark;  // of ranges: the group, or EXEMPT; of other lists user space's own
};

#define EXEMPT 0xffffffffu

#define LIST(name)                                     \
	struct {                                       \
		__uint(type, BPF_MAP_TYPE_LPM_TRIE);   \
		__uint(map_flags, BPF_F_NO_PREALLOC);  \
		__uint(max_entries, 1);                \
		__type(key, struct list_key);          \
		__type(value, struct list_entry);      \
	} name SEC(".maps")

LIST(allow);
LIST(ban);
LIST(ranges);
LIST(watched);

// An expired entry must not hide a wider one that still holds. While weir runs it takes expired ones out; this many, one inside
// the other, are seen through when it does not.
#define EXPIRED_INSIDE 4

static __always_inline struct list_entry *find(void *list, struct list_key *key)
{
	key->prefixlen = FAMILY_BITS + (key->family == 4 ? 32 : 128);
	KEEP_LOOP
	for (int i = 0; i < EXPIRED_INSIDE; i++) {
		struct list_entry *e = bpf_map_lookup_elem(list, key);
		if (!e || !e->until || e->until > clock_ns())
			return e;
		if (e->bits == 0)
			return 0;
		key->prefixlen = FAMILY_BITS + e->bits - 1;
	}
	return 0;
}
