"""Support code of Queueing Lab: the science in `queueing`, what a learner touches in `lab`."""

__version__ = "0.1.0"
