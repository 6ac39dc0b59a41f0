"""The loops behind `engine` and `admission`, in the style of `kernels`: plain Python that numba can compile too."""

from bisect import bisect_right
from heapq import heapify, heappop, heappush
from math import ceil, inf, sqrt

import numpy as np


def serve(
    arrival, prompt, output, rank, by_rank, home, written, unread, delivered, engines, costs, limits, door,
    start, first, finish, token_at, joined, ended, preempted, engine,
):  # fmt: skip
    """Engines with continuous batching, from one event to the next. `engine.py` says what they do.

    Inputs, one per request: rank in the order of service and its inverse by_rank; home, the engine it goes to (-1:
    the least loaded one, -2: refused); written and unread, the tokens written so far and those to be read before
    the next one is written (0: it comes with its KV), both used up here; delivered, when the last of them was.

    Time is cut into stretches: runs of steps with the same batch and, but for the last, the same prompt pieces. A
    stretch ends with the first completion, the last piece of a prompt, an arrival that could be admitted, or a full
    KV budget. A heap holds the batch by the decode step of each request's last token, so that joining, leaving and
    jumping cost the same whatever the number of tokens.

    Request k decodes in the stretches joined[k] <= s < ended[k] of its engine; token_at[k] is when its latest token
    before these was written. Returns the columns of all stretches that decode, then of all stays in the batch that
    preemption cut short, and of the pauses from there to the next token.
    """
    total = len(arrival)
    step_s, sequence_s, context_s, prefill_s, prompt_s = costs
    slots, kv_limit, chunk, budget, mixed, reserve, by_prompt = limits
    watched, guarded, most_waiting, most_kv, most_p99, recent_s = door
    # Per engine: the batch as a heap of (decode step * total + request); ranks of those that wait (in FCFS order
    # only of preempted ones); its requests in order of arrival; times of first tokens and TTFTs.
    batches = [[0][:0] for _ in range(engines)]
    queues = [[0][:0] for _ in range(engines)]
    members = [[0][:0] for _ in range(engines)]
    first_times = [[0.0][:0] for _ in range(engines)]
    ttfts = [[0.0][:0] for _ in range(engines)]
    sorted_ttfts = [[0.0][:0] for _ in range(engines)]
    recent = [(0, 0)] * engines  # which of the TTFTs are in sorted_ttfts
    # Time, decode steps done times total, sequences that decode, KV tokens held, of these grown in the last step,
    # context tokens, members seen, request whose prompt is partly read, tokens left of it, end of the last decode
    # step, stretches, members gone
    states = [(0.0, 0, 0, 0, 0, 0, 0, -1, 0, 0.0, 0, 0)] * engines
    s_engine, s_steps, s_sequences, s_kv = [0][:0], [0][:0], [0][:0], [0][:0]
    s_begin, s_step = [0.0][:0], [0.0][:0]
    c_request, c_joined, c_ended, c_token_at = [0][:0], [0][:0], [0][:0], [0.0][:0]
    p_request, p_pause = [0][:0], [0.0][:0]
    done = [0][:0]  # requests whose prompt is read to its end in the next step
    latest = engines - 1  # the engine that got the last request

    for i in range(total):
        preempted[i] = 0
        engine[i] = home[i]
        if home[i] == -2:
            engine[i] = -1
            start[i] = first[i] = inf
            finish[i] = arrival[i]
        elif not watched:
            members[home[i]].append(i)

    for i in range(0 if watched else total, total + 1):
        until, low, high = inf, 0, engines
        if i < total:
            if home[i] == -2:
                continue
            until = arrival[i]
            if home[i] >= 0:
                low, high = home[i], home[i] + 1
        for e in range(low, high):
            now, turn, active, kv, grown, context, seen, reader, left, last, stretches, gone = states[e]
            batch, queue, mine = batches[e], queues[e], members[e]
            upcoming = arrival[mine[seen]] if seen < len(mine) else inf
            while now <= until:
                while batch and batch[0] < turn + total:
                    k = heappop(batch) % total
                    finish[k] = now
                    ended[k] = stretches
                    active -= 1
                    gone += 1
                    size = prompt[k] + output[k]
                    kv -= size
                    context -= size
                grown = 0
                if now == until:
                    break

                # Make room for one more token of each sequence.
                grow = 0 if reserve else active
                while kv + grow > kv_limit:
                    victim = reader
                    code = 0
                    for c in batch:
                        k = c % total
                        if victim < 0 or rank[k] > rank[victim]:
                            victim = k
                            code = c
                    if victim == reader:
                        reader = -1
                        kv -= prompt[victim] + written[victim] + 1
                    else:
                        batch.remove(code)
                        heapify(batch)
                        written[victim] = output[victim] - (code - turn) // total
                        unread[victim] = prompt[victim] + written[victim]
                        active -= 1
                        grow -= 1
                        kv -= unread[victim]
                        context -= unread[victim]
                        c_request.append(victim)
                        c_joined.append(joined[victim])
                        c_ended.append(stretches)
                        c_token_at.append(token_at[victim])
                        if joined[victim] < stretches:
                            token_at[victim] = last
                    preempted[victim] += 1
                    heappush(queue, rank[victim])

                # Choose the prompt pieces of the next step.
                if by_prompt:
                    while upcoming <= now:
                        heappush(queue, rank[mine[seen]])
                        seen += 1
                        upcoming = arrival[mine[seen]] if seen < len(mine) else inf
                pieces = 0
                if reader >= 0 or (active < slots and (queue or upcoming <= now)):
                    room = chunk
                    if mixed and budget - active < room:
                        room = budget - active
                    while room > 0:
                        if reader < 0:
                            if queue:
                                k = by_rank[queue[0]]
                            elif upcoming <= now:
                                k = mine[seen]
                            else:
                                break
                            need = prompt[k] + (output[k] if reserve else written[k] + 1)
                            if active + len(done) == slots or kv + grow + need > kv_limit:
                                break
                            if queue:
                                heappop(queue)
                            else:
                                seen += 1
                                upcoming = arrival[mine[seen]] if seen < len(mine) else inf
                            if preempted[k] == 0:
                                start[k] = now
                            if unread[k] == 0:
                                token_at[k] = first[k] = delivered[k]
                                joined[k] = stretches
                                heappush(batch, turn + (output[k] - written[k]) * total + k)
                                active += 1
                                context += prompt[k] + written[k]
                                if reserve:
                                    kv += need
                                else:
                                    kv += need - 1
                                    grow += 1
                                continue
                            kv += need
                            reader, left = k, unread[k]
                        if left > room:
                            pieces += room
                            left -= room
                            break
                        pieces += left
                        room -= left
                        done.append(reader)
                        reader = -1
                        if not mixed:
                            break

                # How long is a step, and how many such steps are there until something changes?
                decoding, step, growth, cut = active, 0.0, 0.0, until
                if pieces:
                    step = prefill_s + prompt_s * pieces
                    steps = 1 if done else 1 + (left - 1) // pieces
                    if not mixed:
                        decoding = 0
                    elif steps > 1 and active:
                        steps = min(steps, (batch[0] - turn) // total)
                elif active:
                    steps = (batch[0] - turn) // total
                    if now < upcoming < until and active < slots:
                        cut = upcoming
                elif seen < len(mine):
                    now = upcoming
                    continue
                else:
                    break
                if decoding:
                    step += step_s + sequence_s * decoding + context_s * context
                    growth = context_s * decoding
                    if kv + grow * steps > kv_limit:
                        steps = (kv_limit - kv) // grow
                span = steps * step + growth * (steps * (steps - 1) // 2)
                if now + span > cut and steps > 1:
                    # The first step that ends at `cut` or after it: the root of the sum, its rounding put right.
                    wanted, slope = cut - now, step - growth / 2
                    steps = max(1, ceil(2 * wanted / (slope + sqrt(slope * slope + 2 * growth * wanted))) - 1)
                    span = steps * step + growth * (steps * (steps - 1) // 2)
                    while now + span < cut:
                        steps += 1
                        span = steps * step + growth * (steps * (steps - 1) // 2)
                if reader >= 0:
                    left -= (steps - 1) * pieces
                if decoding:
                    s_engine.append(e)
                    s_begin.append(now)
                    s_steps.append(steps)
                    s_sequences.append(decoding)
                    s_kv.append(kv)
                    s_step.append(step)
                    stretches += 1
                    turn += steps * total
                    context += steps * decoding
                    kv += steps * grow
                    grown = grow
                    last = now + span
                now += span
                for k in done:
                    if written[k] == 0:
                        first[k] = now
                        if guarded:
                            first_times[e].append(now)
                            ttfts[e].append(now - arrival[k])
                    else:
                        p_request.append(k)
                        p_pause.append(now - token_at[k])
                    token_at[k] = now
                    joined[k] = stretches
                    written[k] += 1
                    active += 1
                    context += prompt[k] + written[k]
                    heappush(batch, turn + (output[k] - written[k]) * total + k)
                done.clear()
            states[e] = (now, turn, active, kv, grown, context, seen, reader, left, last, stretches, gone)
        if i == total:
            break

        # Somebody arrives at `until`: where to, and is the door open?
        chosen = low
        if home[i] == -1:
            fewest = total + 1
            for turns in range(1, engines + 1):
                e = (latest + turns) % engines
                inside = len(members[e]) - states[e][11]
                if inside < fewest:
                    fewest = inside
                    chosen = e
            latest = chosen
        if guarded:
            e = chosen
            now, turn, active, kv, grown, context, seen, reader, left, last, stretches, gone = states[e]
            waiting = len(members[e]) - gone - active - (1 if reader >= 0 else 0)
            held = kv - grown if now > until else kv
            entering, leaving = recent[e]
            window = sorted_ttfts[e]
            while entering < len(ttfts[e]) and first_times[e][entering] <= until:
                window.insert(bisect_right(window, ttfts[e][entering], 0, len(window)), ttfts[e][entering])
                entering += 1
            while leaving < entering and first_times[e][leaving] <= until - recent_s:
                window.pop(bisect_right(window, ttfts[e][leaving], 0, len(window)) - 1)
                leaving += 1
            recent[e] = (entering, leaving)
            p99 = window[(99 * len(window) + 99) // 100 - 1] if window else 0.0
            if waiting >= most_waiting or held >= most_kv or p99 >= most_p99:
                engine[i] = -1
                start[i] = first[i] = inf
                finish[i] = until
                continue
        engine[i] = chosen
        members[chosen].append(i)

    stretch = (
        np.array(s_engine), np.array(s_begin), np.array(s_steps), np.array(s_sequences), np.array(s_kv),
        np.array(s_step),
    )  # fmt: skip
    cut_short = (np.array(c_request), np.array(c_joined), np.array(c_ended), np.array(c_token_at))
    return stretch, cut_short, (np.array(p_request), np.array(p_pause))


def token_bucket(arrival, cost, rate, burst, admitted):
    """Whether the bucket, full at first, still holds the cost of each request when it arrives."""
    level, last = burst, 0.0
    for i in range(len(arrival)):
        level = min(burst, level + rate * (arrival[i] - last))
        last = arrival[i]
        # Levels are sums of rounded numbers: a bucket short of the cost by rounding alone is not short.
        admitted[i] = level >= cost[i] - 1e-9
        if admitted[i]:
            level -= cost[i]
