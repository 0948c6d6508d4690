// Package attack tries to break rings as named identities: a tenant, a compromised shard, a shard from a foreign
// namespace, and a creator of rings.
//
// Each attempt runs twice: with the controls of the product, which must refuse it, and without the one control that the
// attempt names, where it must succeed. So no attempt is refused for another reason, and no control is without effect.
package attack
