// Package netns gives every node of a cluster on this machine a network namespace of its own, joined by one bridge, and
// cuts the wires between them.
//
// A node is reached at 10.213.N.ID, where N is the number of the network and ID the node's; this machine itself is
// 10.213.N.254 and reaches all of them. Three things can be done to a wire, while processes run and connections stand:
//
//   - [Network.Unplug] takes a node's cable out: it reaches nobody and nobody reaches it, this machine included.
//   - [Network.Drop] has everything that one node sends to another vanish, silently and in this direction alone: the
//     sender is made to believe in a hardware address that nobody has. Packets that carry only acknowledgements vanish too.
//   - [Network.Heal] and [Network.Pass] undo it.
//
// It needs Linux, root, and ip of iproute2; [Possible] tells whether it works here. Namespaces outlive the process that made
// them: whoever makes a Network removes it, or makes it anew for the same owner, which removes what was left behind.
package netns
