"""One file per family of training methods. A method takes the model and its settings and returns an `Objective`.

A method minimises one loss in the weights, at an image x' that maximises another loss in the input. Notation:

    f(x)         the logits
    CE(x)        cross-entropy, -log softmax(f(x))_y
    IG(x, x')    integrated gradients of the cross-entropy along the path from x to x'
    IG(x0, x)    integrated gradients of the true probability along the path from the baseline x0 to x
    S            a size function, the L1 norm by default

The settings that the methods share:

    eps, attack_steps, step_size    PGD for x': radius of the L-infinity ball, number and size of the steps. The start
                                    is random, the last iterate is used, and x' is a constant for the weights.
    ig_steps, attack_ig_steps       points of integrated gradients in the minimised and in the maximised loss
    reduction                       "mean" or "sum" (released code) over the batch

Equation numbers are those of *Enhanced Regularizers for Attributional Robustness* ("the paper").
"""
