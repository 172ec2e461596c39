// Package admission stands in front of an upstream that can work on a limited number of requests at once, its capacity.
// It decides which request goes next.
//
// Those who paid wait in the stamped lane, all others in the general pool. A place that becomes free goes to the next
// in line at once. Somebody who has just come does not get it before them, and it is not kept for somebody who is away.
// When both lanes wait, the stamped lane goes first. But the pool has a guaranteed share of the capacity, counted in
// time and not in requests, unless the option strict takes it away. While stamps are asked for, Take decides which
// unpaid events the pool accepts.
//
// # Turns
//
// Clients take turns. A client is an account that the upstream has accepted, otherwise an address (for IPv6, a /64). A
// free place goes to the waiting client that has the fewest places. Among clients with equally many it goes to the one
// whose last turn, or arrival, was longest ago.
//
// In the stamped lane, a stamp that is worth at most half of the price now waits for all that are worth more. One of
// every four places goes to an address where several people wait who paid, if the address has less than a fourth of all
// places. People at one address take turns with each other. A client id has one turn, even if it comes from several
// addresses.
//
// If a lane is full, the client with the most waiting requests makes room for another client. Among clients with
// equally many, the one that paid less does. While others wait, a client that reads or sends too slowly loses its
// place. A client with more than its fair part of the places also loses those that wait for nothing but the client.
//
// The price of a stamp follows the longest wait of clients that paid.
//
// # The rest
//
// People without JavaScript do not wait in a lane but in a waiting room: a page that reloads. They get a signed ticket
// with a number (Tickets). Nothing is stored for a ticket until it is shown (Lanes.Take). Then it gets a place in the
// line, in the order of numbers, and keeps it by being shown again and again. People who are called are let in through
// the general pool.
//
// Lanes also measure how much is asked of the upstream in proportion to its capacity, and how long those waited who
// paid (Lanes.Load). The price of a stamp follows both. The operator writes the capacity, or it is learnt from how long
// requests take. Learning works like TCP Vegas (Brakmo and Peterson, 1994) and Netflix' concurrency-limits: the
// capacity grows as long as requests do not take longer for it. Now and then fewer requests are let through for a
// moment, as in TCP BBR, to see how long a request takes by itself.
//
// Most callers make Lanes with New, put them at the end of a chain, and call Advance at the times that Alarm reports.
// Goroutines may share them. Time is always passed in. An event that is let in at once allocates nothing.
package admission
