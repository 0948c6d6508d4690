package coordination

import "context"

// The methods of this file are Get and Update for one set each.

// GetPendingForRemoval returns the members that are to be removed: all, or those with one of the prefixes.
func (c *Coordinator) GetPendingForRemoval(ctx context.Context, prefixes ...string) (Members, error) {
	return c.Get(ctx, PendingForRemoval, prefixes...)
}

// UpdatePendingForRemoval adds to, or removes from, this instance's members that are to be removed.
func (c *Coordinator) UpdatePendingForRemoval(ctx context.Context, updates Updates) error {
	return c.Update(ctx, map[Set]Updates{PendingForRemoval: updates})
}

// GetPendingForExclusion returns the members that are to be excluded: all, or those with one of the prefixes.
func (c *Coordinator) GetPendingForExclusion(ctx context.Context, prefixes ...string) (Members, error) {
	return c.Get(ctx, PendingForExclusion, prefixes...)
}

// UpdatePendingForExclusion adds to, or removes from, this instance's members that are to be excluded.
func (c *Coordinator) UpdatePendingForExclusion(ctx context.Context, updates Updates) error {
	return c.Update(ctx, map[Set]Updates{PendingForExclusion: updates})
}

// GetPendingForInclusion returns the members that are to be included: all, or those with one of the prefixes.
func (c *Coordinator) GetPendingForInclusion(ctx context.Context, prefixes ...string) (Members, error) {
	return c.Get(ctx, PendingForInclusion, prefixes...)
}

// UpdatePendingForInclusion adds to, or removes from, this instance's members that are to be included.
func (c *Coordinator) UpdatePendingForInclusion(ctx context.Context, updates Updates) error {
	return c.Update(ctx, map[Set]Updates{PendingForInclusion: updates})
}

// GetPendingForRestart returns the members that are to be restarted: all, or those with one of the prefixes.
func (c *Coordinator) GetPendingForRestart(ctx context.Context, prefixes ...string) (Members, error) {
	return c.Get(ctx, PendingForRestart, prefixes...)
}

// UpdatePendingForRestart adds to, or removes from, this instance's members that are to be restarted.
func (c *Coordinator) UpdatePendingForRestart(ctx context.Context, updates Updates) error {
	return c.Update(ctx, map[Set]Updates{PendingForRestart: updates})
}

// GetReadyForExclusion returns the members that can be excluded now: all, or those with one of the prefixes.
func (c *Coordinator) GetReadyForExclusion(ctx context.Context, prefixes ...string) (Members, error) {
	return c.Get(ctx, ReadyForExclusion, prefixes...)
}

// UpdateReadyForExclusion adds to, or removes from, this instance's members that can be excluded now.
func (c *Coordinator) UpdateReadyForExclusion(ctx context.Context, updates Updates) error {
	return c.Update(ctx, map[Set]Updates{ReadyForExclusion: updates})
}

// GetReadyForInclusion returns the members that can be included now: all, or those with one of the prefixes.
func (c *Coordinator) GetReadyForInclusion(ctx context.Context, prefixes ...string) (Members, error) {
	return c.Get(ctx, ReadyForInclusion, prefixes...)
}

// UpdateReadyForInclusion adds to, or removes from, this instance's members that can be included now.
func (c *Coordinator) UpdateReadyForInclusion(ctx context.Context, updates Updates) error {
	return c.Update(ctx, map[Set]Updates{ReadyForInclusion: updates})
}

// GetReadyForRestart returns the members that can be restarted now: all, or those with one of the prefixes.
func (c *Coordinator) GetReadyForRestart(ctx context.Context, prefixes ...string) (Members, error) {
	return c.Get(ctx, ReadyForRestart, prefixes...)
}

// UpdateReadyForRestart adds to, or removes from, this instance's members that can be restarted now.
func (c *Coordinator) UpdateReadyForRestart(ctx context.Context, updates Updates) error {
	return c.Update(ctx, map[Set]Updates{ReadyForRestart: updates})
}
