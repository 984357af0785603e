"""A step along a direction that meets the strong Wolfe conditions."""


def _cubic(x1, f1, g1, x2, f2, g2, bounds=None):
    """Where the cubic through two points with slopes is least, within bounds."""
    low, high = bounds if bounds is not None else (min(x1, x2), max(x1, x2))
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1 ** 2 - g1 * g2
    if square < 0:
        return (low + high) / 2.0
    d2 = square ** 0.5
    if x1 <= x2:
        at = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    else:
        at = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    return min(max(at, low), high)


def strong_wolfe(at, t, d, f, g, slope, c1=1e-4, c2=0.9, change=1e-9, most=25):
    """(loss, gradient, step, evaluations); at(t) gives (loss, gradient)."""
    largest = d.abs().max().item()
    g = g.clone()
    f_new, g_new = at(t)
    evals, slope_new = 1, g_new.dot(d).item()
    before = (0.0, f, g, slope)
    bracket = None
    for i in range(most):
        now = (t, f_new, g_new.clone(), slope_new)
        if f_new > f + c1 * t * slope or (i > 0 and f_new >= before[1]):
            bracket = [before, now]
            break
        if abs(slope_new) <= -c2 * slope:
            return f_new, g_new, t, evals
        if slope_new >= 0:
            bracket = [before, now]
            break
        step = _cubic(before[0], before[1], before[3], t, f_new, slope_new,
                      (t + 0.01 * (t - before[0]), t * 10))
        before, t = now, step
        f_new, g_new = at(t)
        evals += 1
        slope_new = g_new.dot(d).item()
    if bracket is None:
        bracket = [(0.0, f, g, slope), (t, f_new, g_new, slope_new)]
        i = most
    stuck = False
    low, high = (0, 1) if bracket[0][1] <= bracket[1][1] else (1, 0)
    for _ in range(i, most):
        ends = [b[0] for b in bracket]
        if abs(ends[1] - ends[0]) * largest < change:
            break
        t = _cubic(ends[0], bracket[0][1], bracket[0][3], ends[1], bracket[1][1], bracket[1][3])
        eps = 0.1 * (max(ends) - min(ends))
        if min(max(ends) - t, t - min(ends)) < eps:
            if stuck or t >= max(ends) or t <= min(ends):
                t = max(ends) - eps if abs(t - max(ends)) < abs(t - min(ends)) else min(ends) + eps
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        f_new, g_new = at(t)
        evals += 1
        slope_new = g_new.dot(d).item()
        now = (t, f_new, g_new.clone(), slope_new)
        if f_new > f + c1 * t * slope or f_new >= bracket[low][1]:
            bracket[high] = now
            low, high = (0, 1) if bracket[0][1] <= bracket[1][1] else (1, 0)
        else:
            done = abs(slope_new) <= -c2 * slope
            if not done and slope_new * (bracket[high][0] - bracket[low][0]) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = now
            if done:
                break
    return bracket[low][1], bracket[low][2], bracket[low][0], evals
