// Package admission stands in front of an upstream that can work on so many requests at once, and says who goes next.
//
// In the stamped lane wait those who paid, in the general pool all others. A place that becomes free goes to the next
// in line at once, never to a newcomer, and never waits for somebody who is away. When both lanes wait, the stamped
// lane goes first; the pool is guaranteed a share of the capacity all the same, counted in time and not in requests,
// unless strict says otherwise. While stamps are asked for, Take decides which unpaid events the pool accepts.
//
// # Turns
//
// Clients take turns. A client is an account that the upstream has accepted, else an address (of IPv6 a /64). A free
// place goes to the client that has the fewest; among those with as many, to the one that came, or had its last turn,
// longest ago: whoever comes back goes to the end of the round. Stamps worth half of today's price or less wait for the
// others. Of every four places of the stamped lane, one goes to an address where several people wait who paid, if it
// has less than a fourth of all; people at one address take turns, and an id has one, wherever it comes from. When as
// many wait as may, the client with most waiting makes room; among equals, work decides who stays. A client that is too
// slow loses its place while others wait; one that has more than its fair part, also those that wait for it. What is
// asked next follows the longest wait of clients that paid.
//
// # The rest
//
// People without JavaScript do not wait in a lane but in a waiting room: a page that reloads. Their signed ticket
// (Tickets) says their number, and nothing is stored for it. Only a ticket that is shown (Lanes.Take) gets a place in
// the line, in the order of numbers, and keeps it by being shown again. Those called are let in through the general
// pool.
//
// Lanes also measure how much is asked of the upstream in proportion to what it can do (Lanes.Load), and how long
// those waited who paid: that is what the price of a stamp follows. What the upstream can do is written by the
// operator, or learnt from how long requests take, in the manner of TCP Vegas (Brakmo and Peterson, 1994) and of
// Netflix' concurrency-limits: more at once as long as requests take no longer for it. Now and then less is let
// through for a moment, as TCP BBR does, to see how long a request takes by itself.
//
// Most callers want New and put the Lanes last into a chain, and call Advance when Alarm said so. All methods are safe
// for concurrent use, and time is always passed in. An event that is let in at once allocates nothing.
package admission
