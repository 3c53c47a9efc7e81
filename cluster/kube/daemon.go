package main

import (
	"context"

	"github.com/homenode/homenode/api"
	"github.com/homenode/homenode/core/plan"
	"github.com/homenode/homenode/core/workload"
)

// homenode is the daemon, as far as the driver asks it.
type homenode interface {
	Room(ctx context.Context, without string) (api.Room, error)
	Place(ctx context.Context, want api.Want) (api.Home, error)
	Explain(ctx context.Context, id workload.ID) (api.Explanation, error)
	// Events calls each with what happens from now on, until ctx ends or the daemon does.
	Events(ctx context.Context, each func(plan.Event) error) error
}

// socket asks the daemon that listens there, whichever that is by now.
type socket string

func ask[T any](s socket, f func(*api.Client) (T, error)) (out T, err error) {
	c, err := api.Dial(string(s))
	if err != nil {
		return out, err
	}
	defer c.Close()
	return f(c)
}

func (s socket) Room(ctx context.Context, without string) (api.Room, error) {
	return ask(s, func(c *api.Client) (api.Room, error) { return c.Room(ctx, without) })
}

func (s socket) Place(ctx context.Context, want api.Want) (api.Home, error) {
	return ask(s, func(c *api.Client) (api.Home, error) { return c.Place(ctx, want) })
}

func (s socket) Explain(ctx context.Context, id workload.ID) (api.Explanation, error) {
	return ask(s, func(c *api.Client) (api.Explanation, error) { return c.Explain(ctx, id) })
}

func (s socket) Events(ctx context.Context, each func(plan.Event) error) error {
	_, err := ask(s, func(c *api.Client) (out struct{}, err error) {
		h, err := c.History(ctx, api.HistoryQuery{Limit: 1})
		if err != nil {
			return out, err
		}
		newest := uint64(0)
		for _, e := range h.Events {
			newest = e.Seq
		}
		return out, c.Events(ctx, newest, each)
	})
	return err
}
